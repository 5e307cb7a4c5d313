import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { readScript, type ScriptName } from '../src/read-script.ts';
import { connectRedis, type Redis } from '../src/redis.ts';
import { startRedis, type TestServer } from './start-server.ts';

const FOLDER = join(import.meta.dirname, '../src/scripts');
const FILES = readdirSync(FOLDER);

let server: TestServer & { url: string };
let redis: Redis;
beforeAll(async () => {
  server = await startRedis();
  redis = await connectRedis({ url: server.url });
});
afterAll(async () => {
  redis?.disconnect();
  await server?.stop();
});
beforeEach(() => redis.flushall());

/** Runs a script as the package does. */
function run(name: ScriptName, keys: string[], ...args: (string | number)[]): Promise<unknown> {
  return redis.eval(readScript(name), keys.length, ...keys, ...args);
}

test.each(FILES)('%s names its keys, its arguments and its result', (file) => {
  const text = readFileSync(join(FOLDER, file), 'utf8');
  const [header = '', body = ''] = text.split(/\n\n/, 2);
  const named = (name: string) => header.includes(`${name}[`);
  expect(header.split('\n').every((line) => line.startsWith('--'))).toBe(true);
  expect(header).toMatch(/^-- Returns /m);
  expect([named('KEYS'), named('ARGV')]).toEqual([text.includes('KEYS'), body.includes('ARGV')]);
});

test('count-events counts each key in its own window, which begins with the first event', async () => {
  const count = (...args: number[]) => run('count-events', ['a', 'b'], ...args);
  expect(await count(2, 5_000, 1, 60_000)).toEqual([2, 5_000, 1, 60_000]);
  const [a, aLeftMs, b, bLeftMs] = (await count(3, 90_000, 1, 90_000)) as number[];
  expect([a, b]).toEqual([5, 2]);
  expect(aLeftMs).toBeLessThanOrEqual(5_000);
  expect(bLeftMs).toBeLessThanOrEqual(60_000);
});

test('count-events gives a counter without an end a new window', async () => {
  await redis.set('a', '7');
  expect(await run('count-events', ['a'], 1, 5_000)).toEqual([8, 5_000]);
});

test('acquire-slot renews the slot of a holder, and leaves no set behind', async () => {
  const acquire = (holder: string) => run('acquire-slot', ['slots'], 2, 60_000, holder);
  for (const holder of ['one', 'two', 'two']) expect(await acquire(holder)).toBe(1);
  expect(await redis.zcard('slots')).toBe(2);
  expect(await redis.pttl('slots')).toBeGreaterThan(0);
});

describe('refresh-presence', () => {
  const refresh = () => run('refresh-presence', ['entry'], 'g1|c2|9000', 'c2', 9_000, 60, 1_000);

  test.each([
    ['finds its own entry', 'g1|c2|9000', null, 'g1|c2|9000'],
    ['writes a missing entry', undefined, 'missing', 'g1|c2|9000'],
    ['replaces one of a former identity of its gateway', 'g0|c2|9000', null, 'g1|c2|9000'],
    ['replaces an older connection of its gateway', 'g1|c1|9999', 'g1|c1|9999', 'g1|c2|9000'],
    ['replaces an older connection of another gateway', 'g2|c1|7999', 'g2|c1|7999', 'g1|c2|9000'],
    ['leaves a connection whose order is uncertain', 'g2|c1|8000', 'taken-over', 'g2|c1|8000'],
    ['leaves a newer connection', 'g2|c3|9500', 'taken-over', 'g2|c3|9500'],
    ['leaves a connection of unknown time', 'g2|c3', 'taken-over', 'g2|c3'],
  ])('%s', async (_what, there, result, after) => {
    if (there !== undefined) await redis.set('entry', there);
    expect(await refresh()).toBe(result);
    expect(await redis.get('entry')).toBe(after);
    expect((await redis.ttl('entry')) > 0).toBe(result !== 'taken-over');
  });
});

test.each([
  ['removes the entry of its connection', 'g1|c1|1', null],
  ['removes that of a former identity of the gateway', 'g0|c1|1', null],
  ['leaves the entry of a newer connection', 'g1|c2|2', 'g1|c2|2'],
  ['does nothing without an entry', undefined, null],
])('unregister-presence %s', async (_what, there, after) => {
  if (there !== undefined) await redis.set('entry', there);
  expect(await run('unregister-presence', ['entry'], 'c1')).toBeNull();
  expect(await redis.get('entry')).toBe(after);
});

test('read-time returns what TIME returns', async () => {
  const times = [await redis.time(), await run('read-time', ['any']), await redis.time()];
  const micros = (times as [number, number][]).map(([seconds, rest]) => +seconds * 1e6 + +rest);
  expect(micros).toEqual([...micros].sort((one, other) => one - other));
});
