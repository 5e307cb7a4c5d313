import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import { connectPresence, type PresenceServer } from '../src/presence-server.ts';
import { createRateCounter } from '../src/rate-counter.ts';
import type { Redis } from '../src/redis.ts';
import { createSlots, type Slot } from '../src/slots.ts';
import { freePort, startRedis } from './start-server.ts';

const MINUTE = 60_000;
const MAX_KEYS = 50_000;
/** Below the 100 ms for which a process waits for Redis before it counts alone. */
const WAITS_MS = 90;
let server: Awaited<ReturnType<typeof startRedis>>;
let presence: PresenceServer;
let secondPresence: PresenceServer;
let redis: Redis;
const errors: Error[] = [];
const newProcess = () => createRateCounter(presence, (error) => errors.push(error));

beforeAll(async () => {
  server = await startRedis();
  [presence, secondPresence] = [await connectPresence(server), await connectPresence(server)];
  redis = presence.redis as Redis;
});
afterEach(() => {
  errors.length = 0;
});
afterAll(async () => {
  presence.close();
  secondPresence.close();
  await server.stop();
});

async function countEvents(rateCounter: ReturnType<typeof newProcess>, key: string, times: number) {
  const results = await Promise.all(
    Array.from({ length: times }, () => rateCounter.increment(key, MINUTE)),
  );
  return results.map(({ count: n }) => n);
}

test('events are counted over all processes, each once', async () => {
  const counts = await until(
    async () => {
      const [one, other] = [newProcess(), newProcess()];
      const [a, b] = [randomUUID(), randomUUID()];
      const startedAt = performance.now();
      const found = [
        ...(await countEvents(one, a, 3)),
        ...(await countEvents(other, a, 2)),
        ...(await countEvents(one, b, 1)),
      ];
      return performance.now() - startedAt < WAITS_MS && found;
    },
    { what: 'a Redis that responds in time' },
  );
  expect(counts).toEqual([1, 2, 3, 4, 5, 1]);
});

test('the count restarts after the window', async () => {
  const rateCounter = newProcess();
  const first = await rateCounter.increment('short', 30);
  expect(first.count).toBe(1);
  expect(first.resetsInMs).toBeLessThanOrEqual(30);
  await until(async () => (await redis.exists('n:short')) === 0);
  expect((await rateCounter.increment('short', 30)).count).toBe(1);
});

test('a frozen Redis delays events only briefly and gets the missed increments later', async () => {
  const rateCounter = newProcess();
  expect(await countEvents(rateCounter, 'frozen', 2)).toEqual([1, 2]);
  process.kill(server.pid, 'SIGSTOP');
  const counted = countEvents(rateCounter, 'frozen', 2).then((counts) => [counts, errors.length]);
  // Before the command has timed out.
  expect(await counted).toEqual([[3, 4], 0]);
  expect(await countEvents(rateCounter, 'frozen', 1)).toEqual([5]);
  process.kill(server.pid, 'SIGCONT');
  await until(async () => (await redis.get('n:frozen')) === '4');
  expect(await countEvents(rateCounter, 'frozen', 1)).toEqual([6]);
  expect(await redis.get('n:frozen')).toBe('6');
});

test('a process keeps at most 50,000 counters and discards the oldest first', async () => {
  const rateCounter = newProcess();
  const keys = Array.from({ length: MAX_KEYS + 1 }, (_, n) => `many-${n}`);
  await Promise.all(keys.map((key) => rateCounter.increment(key, MINUTE)));
  expect(rateCounter.currentCount('many-0')).toBe(0);
  for (const key of ['many-1', `many-${MAX_KEYS}`]) expect(rateCounter.currentCount(key)).toBe(1);
});

describe('slots', () => {
  const errors: Error[] = [];
  const slotsOf = (presence: PresenceServer) =>
    createSlots(presence, 2, (error) => errors.push(error));

  async function acquireAll(...acquiring: Promise<Slot | undefined>[]): Promise<Slot[]> {
    const slots = (await Promise.all(acquiring)).filter((slot) => slot !== undefined);
    expect(slots).toHaveLength(acquiring.length);
    return slots;
  }

  test('two holders of a key have a slot, a third has none until one is released', async () => {
    const [one, other] = [slotsOf(presence), slotsOf(secondPresence)];
    const held = await acquireAll(one.acquire('a'), other.acquire('a'), other.acquire('b'));
    expect(await one.acquire('a')).toBeUndefined();
    held[1]?.release();
    held[1]?.release();
    // The processes have a connection each: Redis may execute the acquisition of one before the other's release.
    await secondPresence.redis.ping();
    held.push(...(await acquireAll(one.acquire('a'))));
    expect(await other.acquire('a')).toBeUndefined();
    for (const slot of held) slot.release();
    expect(errors).toEqual([]);
  });

  test('a slot whose process died is free after its lease', async () => {
    await presence.redis.zadd('slots:dead', 1, 'one', 1, 'two');
    for (const slot of await acquireAll(slotsOf(presence).acquire('dead'))) slot.release();
    expect(errors).toEqual([]);
  });

  test('without Redis each process counts alone', async () => {
    const nowhere = await connectPresence({ url: `redis://127.0.0.1:${await freePort()}` });
    const slots = slotsOf(nowhere);
    const held = await acquireAll(slots.acquire('a'), slots.acquire('a'));
    expect(await slots.acquire('a')).toBeUndefined();
    held[0]?.release();
    held.push(...(await acquireAll(slots.acquire('a'))));
    for (const slot of held) slot.release();
    nowhere.close();
    expect(errors.length).toBeGreaterThan(0);
  });
});
