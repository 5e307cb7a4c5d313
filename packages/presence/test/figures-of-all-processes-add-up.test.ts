import { fork } from 'node:child_process';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { isDeepStrictEqual } from 'node:util';
import { type AppCounts, OTHER_APPS, takeAppCounts } from '@carillon/core/app-counts';
import { countAccepted, countRecipients, processCounts } from '@carillon/core/process-counts';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { createDataFolder } from '../../../test/support/data-folder.ts';
import { until } from '../../../test/support/until.ts';
import { createAppFiguresReader, sumAppMinutes } from '../src/app-figures.ts';
import { createFiguresReader, type FiguresSnapshot } from '../src/figures-reader.ts';
import { startFigures } from '../src/figures-writer.ts';
import { MAX_OPEN_CIRCUITS, type OpenCircuit, readOpenCircuits } from '../src/open-circuits.ts';
import { createRedis, type Redis } from '../src/redis.ts';
import { freePort, startServer, type TestServer } from './start-server.ts';

const APP_BACKLOG = { app: 'app-1', pending: 7, isAtLeast: true, oldestMs: 900 };

let folder: string;
let port: number;
let server: TestServer;
let redis: Redis;
let reader: ReturnType<typeof createFiguresReader>;
let appReader: ReturnType<typeof createAppFiguresReader>;
let writers: ReturnType<typeof startFigures>[];
let warnings: number;

/** Starts a Redis that keeps every command when it is killed. */
const startDurableRedis = () =>
  startServer(
    'redis-server',
    () => [
      ...['--port', `${port}`, '--bind', '127.0.0.1', '--dir', folder, '--save', ''],
      ...['--appendonly', 'yes', '--appendfsync', 'always'],
    ],
    port,
  );

beforeAll(async () => {
  [folder, port] = [await createDataFolder(), await freePort()];
  server = await startDurableRedis();
  redis = createRedis({ url: `redis://127.0.0.1:${port}` }, 'command', () => undefined);
  reader = createFiguresReader(redis);
  await until(() => redis.status === 'ready');
});
beforeEach(async () => {
  await redis.flushall();
  processCounts.pushesAccepted = 0;
  takeAppCounts();
  appReader = createAppFiguresReader(redis);
  [writers, warnings] = [[], 0];
});
afterEach(() => Promise.all(writers.map((writer) => writer.stop())));
afterAll(async () => {
  redis?.disconnect();
  await server?.stop();
  await rm(folder, { recursive: true, force: true });
});

/** Adds the counts of this process to the figures every 20 ms. */
async function startWriter() {
  const log = {
    warn: () => {
      warnings += 1;
    },
  };
  const readBuckets = () => [{ boundMs: 5, count: 2 }];
  const address = { url: `redis://127.0.0.1:${port}` };
  const before = await countWrites();
  const writer = startFigures(address, { log, readBuckets, intervalMs: 20 });
  writers.push(writer);
  await until(async () => (await countWrites()) > before);
  return writer;
}

const sum = (numbers: readonly (number | undefined)[]) =>
  numbers.reduce<number>((total, n) => total + (n ?? 0), 0);
const accepted = ({ minutes }: FiguresSnapshot) => sum(minutes.map((minute) => minute.accepted));

async function readUntil(condition: (snapshot: FiguresSnapshot) => boolean) {
  return until(async () => {
    const snapshot = await reader.read();
    return condition(snapshot) ? snapshot : undefined;
  });
}
const untilAccepted = (count: number) => readUntil((read) => accepted(read) === count);

const countConnections = async () =>
  String(await redis.client('LIST'))
    .trim()
    .split('\n').length;

/** Returns how often Redis has run the script of the writers. */
async function countWrites(): Promise<number> {
  return Number(/cmdstat_eval:calls=(\d+)/.exec(await redis.info('commandstats'))?.[1] ?? 0);
}

test('the figures of two processes add up, the last counts of a process included', async () => {
  const startedAt = Date.now();
  const file = new URL('./counting-process.ts', import.meta.url);
  const other = fork(file, [`redis://127.0.0.1:${port}`], { execArgv: [] });
  try {
    await startWriter();
    processCounts.pushesAccepted += 3;
    countRecipients('app-1', 'mqtt', { delivered: 2 });
    const snapshot = await readUntil(
      (read) => accepted(read) === 7 && read.gateways[0]?.online === 12,
    );
    expect(sum(snapshot.minutes.map(({ ended }) => ended.mqtt?.delivered))).toBe(3);
    expect(sum(snapshot.minutes.map(({ failures }) => failures['wrong-credential']))).toBe(1);
    const latencies = snapshot.minutes.flatMap((minute) => [...minute.latencies]);
    expect(Object.fromEntries(latencies)).toEqual({ 5: 2, Infinity: 1 });
    expect(snapshot.gateways).toEqual([{ gateway: 'gateway-1', online: 12 }]);
    expect(snapshot.since).toBeGreaterThanOrEqual(startedAt - 1);
    expect(snapshot.readAt).toBeGreaterThanOrEqual(snapshot.since ?? Number.NaN);
    expect(snapshot.minutes.length).toBeLessThanOrEqual(2);
    const exited = once(other, 'exit');
    other.send('stop');
    await exited;
    const last = await reader.read();
    expect([accepted(last), last.since]).toEqual([8, snapshot.since]);
  } finally {
    other.kill('SIGKILL');
  }
});

test('what was counted while Redis was killed is added once it is back', async () => {
  const writer = await startWriter();
  processCounts.pushesAccepted += 5;
  await untilAccepted(5);
  await server.stop();
  processCounts.pushesAccepted += 7;
  await until(() => warnings === 1);
  processCounts.pushesAccepted += 11;
  server = await startDurableRedis();
  await untilAccepted(23);
  await writer.stop();
  expect([accepted(await reader.read()), warnings]).toEqual([23, 1]);
});

test('a write whose response is late is added once', async () => {
  const writer = await startWriter();
  processCounts.pushesAccepted += 1;
  await untilAccepted(1);
  process.kill(server.pid, 'SIGSTOP');
  processCounts.pushesAccepted += 10;
  // The command has timed out; the frozen server has it in its socket and runs it later.
  await until(() => warnings === 1);
  processCounts.pushesAccepted += 100;
  process.kill(server.pid, 'SIGCONT');
  await untilAccepted(111);
  await writer.stop();
  expect(accepted(await reader.read())).toBe(111);
});

test('a stop does not wait until a frozen Redis has responded, or a command has timed out', async () => {
  const writer = await startWriter();
  process.kill(server.pid, 'SIGSTOP');
  processCounts.pushesAccepted += 1;
  await writer.stop();
  expect(warnings).toBe(0);
  process.kill(server.pid, 'SIGCONT');
  // What it has sent must not be added during the next test.
  await until(async () => (await countConnections()) === 1);
});

/** Reads the counts by app of the last hour. */
const readApps = async (): Promise<Record<string, AppCounts>> =>
  Object.fromEntries(sumAppMinutes((await appReader.read()).minutes));

test('the counts of an app add up over processes, and are kept for an hour', async () => {
  const file = new URL('./counting-process.ts', import.meta.url);
  const other = fork(file, [`redis://127.0.0.1:${port}`], { execArgv: [] });
  const exited = once(other, 'exit');
  await startWriter();
  for (let n = 0; n < 2; n += 1) countAccepted('app-1');
  countRecipients('app-1', 'apns', { sent: 5, failed: 2, gone: 9, pending: 1 });
  countRecipients(undefined, 'mqtt', { delivered: 1 });
  const expected = {
    'app-1': { accepted: 5, delivered: 1, sent: 5, failed: 2 },
    'app-2': { accepted: 1 },
    [OTHER_APPS]: { delivered: 1 },
  };
  await until(async () => isDeepStrictEqual(await readApps(), expected));
  // What the reader has kept is what Redis has.
  const again = createAppFiguresReader(redis);
  expect(Object.fromEntries(sumAppMinutes((await again.read()).minutes))).toEqual(expected);
  // The app that has ended least of its pushes comes first.
  expect(await appReader.listActive()).toEqual(['app-2', 'app-1']);
  const [key = ''] = await redis.keys('figures:apps:*');
  expect(await redis.ttl(key)).toBeGreaterThan(3_600);
  expect(await redis.ttl(key)).toBeLessThanOrEqual(3_900);
  other.send('stop');
  await exited;
});

test('a process names a thousand apps in a minute, and the rest adds up', async () => {
  const count = (from: number, to: number) => {
    for (let n = from; n < to; n += 1) countAccepted(`app-${n}`);
  };
  await startWriter();
  count(0, 700);
  await untilAccepted(700);
  count(600, 1_300);
  await untilAccepted(1_400);
  count(0, 1);
  await untilAccepted(1_401);
  const apps = await readApps();
  expect(Object.keys(apps)).toHaveLength(1_001);
  expect(apps['app-0']).toEqual({ accepted: 2 });
  expect(apps['app-699']).toEqual({ accepted: 2 });
  expect(apps['app-1299']).toBeUndefined();
  expect(apps[OTHER_APPS]).toEqual({ accepted: 300 });
  const [key = ''] = await redis.keys('figures:[0-9]*');
  expect(await redis.hlen(key)).toBeLessThan(10);
});

test('a process that has nothing to add sends no command', async () => {
  await startWriter();
  await redis.config('RESETSTAT');
  for (const round of [1, 2, 3]) {
    processCounts.pushesAccepted += 1;
    await untilAccepted(round);
  }
  expect(await countWrites()).toBe(3);
});

test('the backlog is read only while a viewer watches, and by one scheduler', async () => {
  const reads = [0, 0];
  for (const [index, writer] of [await startWriter(), await startWriter()].entries())
    writer.reportBacklog({
      channels: async () => {
        reads[index] = (reads[index] ?? 0) + 1;
        return [{ channel: 'apns', pending: 40, oldestMs: 1_500, deferred: 2 }];
      },
      apps: async () => [APP_BACKLOG],
    });
  const untilWrites = async (more: number) => {
    const before = await countWrites();
    await until(async () => (await countWrites()) >= before + more);
  };
  await redis.del('figures:watched');
  await untilWrites(10);
  const unwatched = [...reads];
  await untilWrites(10);
  expect(reads).toEqual(unwatched);
  const snapshot = await readUntil(({ channels }) => channels.length > 0);
  expect(snapshot.channels).toEqual([
    { channel: 'apns', pending: 40, oldestMs: 1_500, deferred: 2 },
  ]);
  expect((await appReader.read()).backlog).toEqual([APP_BACKLOG]);
  expect(await redis.ttl('figures:app-backlog')).toBeLessThanOrEqual(15);
  await untilWrites(10);
  expect(reads.filter((count, index) => count > (unwatched[index] ?? 0))).toHaveLength(1);
});

test('gauges of processes that have ended are left out, and minutes expire', async () => {
  (await startWriter()).reportOnline('gateway-1', () => 5);
  const { readAt, minutes } = await readUntil(({ gateways }) => gateways.length === 1);
  const key = `figures:${(minutes.at(-1)?.at ?? 0) / 60_000}`;
  await redis.hset(key, 'online:killed', `7|${readAt - 15_500}`, 'online:alive', `8|${readAt}`);
  const { gateways } = await reader.read();
  expect(gateways.map(({ gateway }) => gateway).sort()).toEqual(['alive', 'gateway-1']);
  expect(await redis.ttl(key)).toBeGreaterThan(86_000);
  expect(await redis.ttl('figures:watched')).toBeLessThanOrEqual(15);
});

test('the open circuits of all processes are read as one list, which is bounded', async () => {
  const circuitOf = (n: number): OpenCircuit => {
    return { app: `app${n}`, channel: 'apns', since: 1_000 + n, reason: '503 | no' };
  };
  const many = Array.from({ length: MAX_OPEN_CIRCUITS + 20 }, (_, n) => circuitOf(n));
  const [one, two] = [await startWriter(), await startWriter()];
  one.reportCircuits(() => many.slice(5, 8));
  two.reportCircuits(() => [{ ...circuitOf(5), since: 7, reason: 'later' }]);
  await until(async () => (await readOpenCircuits(redis)).length === 3);
  await until(async () => (await readOpenCircuits(redis))[0]?.since === 7);
  expect((await readOpenCircuits(redis)).slice(1)).toEqual(many.slice(6, 8));
  two.reportCircuits(() => many);
  await until(async () => (await readOpenCircuits(redis)).length > 3);
  expect(await readOpenCircuits(redis)).toHaveLength(MAX_OPEN_CIRCUITS);
  expect(await redis.pttl('figures:circuits')).toBeLessThanOrEqual(15_000);
  for (const writer of [one, two]) writer.reportCircuits(() => []);
  const writes = await countWrites();
  for (let n = 0; n < 4; n += 1) await redis.blpop('never', 0.1);
  // Without an open circuit nothing is written.
  expect((await countWrites()) - writes).toBeLessThanOrEqual(1);
  expect(warnings).toBe(0);
});
