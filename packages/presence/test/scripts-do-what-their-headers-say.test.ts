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

describe('count-events', () => {
  test('counts each key in its own window, which begins with the first event', async () => {
    expect(await run('count-events', ['a', 'b'], 2, 5_000, 1, 60_000)).toEqual([
      2, 5_000, 1, 60_000,
    ]);
    const [a, aLeftMs, b, bLeftMs] = (await run(
      'count-events',
      ['a', 'b'],
      3,
      90_000,
      1,
      90_000,
    )) as number[];
    expect([a, b]).toEqual([5, 2]);
    expect(aLeftMs).toBeLessThanOrEqual(5_000);
    expect(bLeftMs).toBeLessThanOrEqual(60_000);
  });

  test('gives a counter without an end a new window', async () => {
    await redis.set('a', '7');
    expect(await run('count-events', ['a'], 1, 5_000)).toEqual([8, 5_000]);
  });
});

describe('acquire-slot', () => {
  const acquire = (holder: string, leaseMs = 60_000) =>
    run('acquire-slot', ['slots'], 2, leaseMs, holder);

  test('gives as many holders a slot as there are slots, and renews that of a holder', async () => {
    expect([await acquire('one'), await acquire('two'), await acquire('three')]).toEqual([1, 1, 0]);
    expect(await acquire('two')).toBe(1);
    expect(await redis.zcard('slots')).toBe(2);
  });

  test('gives a slot whose lease has ended to another holder, and leaves no set behind', async () => {
    await redis.zadd('slots', 1, 'dead', 2, 'dead too');
    expect(await acquire('one')).toBe(1);
    expect(await redis.zrange('slots', '0', '-1')).toEqual(['one']);
    expect(await redis.pttl('slots')).toBeGreaterThan(0);
  });
});

describe('add-figures', () => {
  const KEYS = ['watched', 'since', 'reader', 'applied', 'minute', 'minute'];
  const add = (number: number, deltas: object[], gauges = {}, reader = '') => {
    const minutes = deltas.map(() => 'minute');
    const args = [number, JSON.stringify(deltas), JSON.stringify(gauges), reader, 3_600, 12];
    return run('add-figures', [...KEYS.slice(0, 5), ...minutes], ...args) as Promise<number[]>;
  };

  test('adds a write once, however often it is sent', async () => {
    await add(1, [{ sent: 2 }, { sent: 3 }]);
    await add(1, [{ sent: 2 }, { sent: 3 }]);
    await add(2, [{ sent: 10 }]);
    expect(await redis.hgetall('minute')).toEqual({ sent: '15' });
    expect(await redis.ttl('minute')).toBeGreaterThan(0);
  });

  test("stamps gauges with Redis's time, and keeps the time since which figures exist", async () => {
    const [first] = await add(1, [], { online: '4' });
    const [second] = await add(2, [], { online: '5' });
    expect(await redis.hget('minute', 'online')).toBe(`5|${second}`);
    expect(await redis.get('since')).toBe(`${first}`);
  });

  test('has one process count the backlog, while somebody views the figures', async () => {
    expect((await add(1, [], {}, 'a'))[1]).toBe(0);
    await redis.set('watched', '1');
    expect((await add(2, [], {}, 'a'))[1]).toBe(1);
    expect((await add(1, [], {}, 'b'))[1]).toBe(0);
    expect((await add(3, [], {}, 'a'))[1]).toBe(1);
    expect((await add(4, []))[1]).toBe(0);
  });
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

describe('unregister-presence', () => {
  test.each([
    ['removes the entry of its connection', 'g1|c1|1', null],
    ['removes that of a former identity of the gateway', 'g0|c1|1', null],
    ['leaves the entry of a newer connection', 'g1|c2|2', 'g1|c2|2'],
  ])('%s', async (_what, there, after) => {
    await redis.set('entry', there);
    expect(await run('unregister-presence', ['entry'], 'c1')).toBeNull();
    expect(await redis.get('entry')).toBe(after);
  });

  test('does nothing without an entry', async () => {
    expect(await run('unregister-presence', ['entry'], 'c1')).toBeNull();
  });
});

test('read-time returns what TIME returns', async () => {
  const [seconds, micros] = (await run('read-time', ['any'])) as string[];
  const [laterSeconds, laterMicros] = await redis.time();
  expect(Number(seconds) * 1e6 + Number(micros)).toBeLessThanOrEqual(
    Number(laterSeconds) * 1e6 + Number(laterMicros),
  );
  expect(Number(laterSeconds) - Number(seconds)).toBeLessThan(60);
});
