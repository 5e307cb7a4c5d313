import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import { connectRedis, type Redis } from '../src/redis.ts';
import { createWindowCounts } from '../src/window-counts.ts';
import { startRedis } from './start-server.ts';

const MINUTE = 60_000;
let server: Awaited<ReturnType<typeof startRedis>>;
let redis: Redis;
const errors: Error[] = [];
const process1 = () => createWindowCounts(redis, (error) => errors.push(error));

beforeAll(async () => {
  server = await startRedis();
  redis = await connectRedis(server.url);
});
afterEach(() => {
  errors.length = 0;
});
afterAll(async () => {
  redis.disconnect();
  await server.stop();
});

async function numbers(counts: ReturnType<typeof process1>, key: string, times: number) {
  const made = await Promise.all(Array.from({ length: times }, () => counts.add(key, MINUTE)));
  return made.map(({ n }) => n);
}

test('counts over all processes, each event once', async () => {
  const [one, other] = [process1(), process1()];
  expect(await numbers(one, 'a', 3)).toEqual([1, 2, 3]);
  expect(await numbers(other, 'a', 2)).toEqual([4, 5]);
  expect(await numbers(one, 'b', 1)).toEqual([1]);
});

test('begins anew when the window is over', async () => {
  const counts = process1();
  const first = await counts.add('short', 30);
  expect(first.n).toBe(1);
  expect(first.resetsInMs).toBeLessThanOrEqual(30);
  await until(async () => (await redis.exists('n:short')) === 0);
  expect((await counts.add('short', 30)).n).toBe(1);
});

test('a frozen Redis costs a moment, and what it missed is told to it later', async () => {
  const counts = process1();
  expect(await numbers(counts, 'frozen', 2)).toEqual([1, 2]);
  process.kill(server.pid, 'SIGSTOP');
  const before = performance.now();
  expect(await numbers(counts, 'frozen', 2)).toEqual([3, 4]);
  expect(await numbers(counts, 'frozen', 1)).toEqual([5]);
  expect(performance.now() - before).toBeLessThan(500);
  process.kill(server.pid, 'SIGCONT');
  await until(async () => (await redis.get('n:frozen')) === '4');
  expect(await numbers(counts, 'frozen', 1)).toEqual([6]);
  expect(await redis.get('n:frozen')).toBe('6');
});
