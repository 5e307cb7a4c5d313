import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { failureCode } from '@carillon/core/outcomes';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import { createFiguresReader, type FiguresSnapshot } from '../src/figures-reader.ts';
import { createRedis, type Redis } from '../src/redis.ts';
import { killCounting, startCounting } from './counting-processes.ts';
import { startServer, type TestServer } from './start-server.ts';

let folder: string;
let server: TestServer;
let redis: Redis;
let reader: ReturnType<typeof createFiguresReader>;
const url = () => `redis://127.0.0.1:${server.port}`;

/** A Redis that keeps every command when it is killed. */
const startDurableRedis = (port?: number) =>
  startServer(
    'redis-server',
    (own) => [
      ...['--port', `${own.port}`, '--bind', '127.0.0.1', '--dir', folder, '--save', ''],
      ...['--appendonly', 'yes', '--appendfsync', 'always'],
    ],
    port,
  );

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'carillon-test-'));
  server = await startDurableRedis();
  redis = createRedis({ url: url() }, 'command', () => undefined);
  reader = createFiguresReader(redis);
  await until(() => redis.status === 'ready');
});
afterEach(async () => {
  redis.disconnect();
  killCounting();
  await server.stop();
  await rm(folder, { recursive: true, force: true });
});

const sum = (numbers: readonly (number | undefined)[]) =>
  numbers.reduce<number>((total, n) => total + (n ?? 0), 0);
const accepted = ({ minutes }: FiguresSnapshot) => sum(minutes.map((minute) => minute.accepted));

async function readUntil(condition: (snapshot: FiguresSnapshot) => boolean) {
  return until(async () => {
    const snapshot = await reader.read();
    return condition(snapshot) ? snapshot : undefined;
  });
}

test('the figures of two processes add up', async () => {
  const startedAt = Date.now();
  const [one, other] = await Promise.all([startCounting(url()), startCounting(url())]);
  one.count({ accepted: 3, delivered: 2, receipts: [[5, 2]] });
  other.count({ accepted: 4, delivered: 1, failureCodes: [failureCode('wrong-credential'), 2] });
  other.count({ receipts: [[Number.POSITIVE_INFINITY, 1]], online: 12 });
  const snapshot = await readUntil(
    (read) => accepted(read) === 7 && read.gateways[0]?.online === 12,
  );
  expect(sum(snapshot.minutes.map(({ ended }) => ended.mqtt?.delivered))).toBe(3);
  expect(sum(snapshot.minutes.map(({ failures }) => failures['wrong-credential']))).toBe(1);
  const latencies = snapshot.minutes.flatMap((minute) => [...minute.latencies]);
  expect(new Map(latencies)).toEqual(
    new Map([
      [5, 2],
      [Number.POSITIVE_INFINITY, 1],
    ]),
  );
  expect(snapshot.gateways).toEqual([{ gateway: 'gateway-1', online: 12 }]);
  expect(snapshot.since).toBeGreaterThanOrEqual(startedAt - 1);
  expect(snapshot.readAt).toBeGreaterThanOrEqual(snapshot.since ?? Number.NaN);
  expect(snapshot.minutes.length).toBeLessThanOrEqual(2);
  await Promise.all([one.stop(), other.stop()]);
});

test('what was counted while Redis was killed is added once it is back', async () => {
  const [counting, stopping] = await Promise.all([startCounting(url()), startCounting(url())]);
  counting.count({ accepted: 5 });
  await readUntil((read) => accepted(read) === 5);
  const { port } = server;
  await server.stop();
  counting.count({ accepted: 7 });
  await until(() => counting.output.includes('warned'));
  counting.count({ accepted: 11 });
  expect(await stopping.stop()).toBeLessThan(900);
  server = await startDurableRedis(port);
  await readUntil((read) => accepted(read) === 23);
  await counting.stop();
  expect(accepted(await reader.read())).toBe(23);
  expect(counting.output.filter((text) => text === 'warned')).toHaveLength(1);
});

test('a write whose response is late is added once', async () => {
  const counting = await startCounting(url());
  counting.count({ accepted: 1 });
  await readUntil((read) => accepted(read) === 1);
  process.kill(server.pid, 'SIGSTOP');
  counting.count({ accepted: 10 });
  // The command has timed out; the frozen server has it in its socket and runs it later.
  await until(() => counting.output.includes('warned'));
  counting.count({ accepted: 100 });
  process.kill(server.pid, 'SIGCONT');
  await readUntil((read) => accepted(read) >= 111);
  await counting.stop();
  expect(accepted(await reader.read())).toBe(111);
});

test('the last counts are sent during the stop, which a frozen Redis does not delay', async () => {
  const [one, other] = await Promise.all([startCounting(url()), startCounting(url())]);
  one.count({ accepted: 1 });
  other.count({ accepted: 1 });
  await readUntil((read) => accepted(read) === 2);
  one.count({ accepted: 1 });
  await one.stop();
  expect(accepted(await reader.read())).toBe(3);
  process.kill(server.pid, 'SIGSTOP');
  other.count({ accepted: 1 });
  expect(await other.stop()).toBeLessThan(900);
  process.kill(server.pid, 'SIGCONT');
});

test('a process that has nothing to add sends no command', async () => {
  const [idle, busy] = await Promise.all([startCounting(url()), startCounting(url())]);
  await redis.config('RESETSTAT');
  for (const round of [1, 2, 3]) {
    busy.count({ accepted: 1 });
    await readUntil((read) => accepted(read) === round);
  }
  const [, evals] = /cmdstat_eval:calls=(\d+)/.exec(await redis.info('commandstats')) ?? [];
  expect(evals).toBe('3');
  await Promise.all([idle.stop(), busy.stop()]);
});

test('the backlog is read only while a viewer watches, and by one scheduler', async () => {
  const [one, other, busy] = await Promise.all([1, 2, 3].map(() => startCounting(url())));
  one?.count({ backlog: 40 });
  other?.count({ backlog: 40 });
  busy?.count({ accepted: 1 });
  const exists = async () => (await redis.keys('figures:*')).includes('figures:since');
  await until(exists);
  expect([...(one?.output ?? []), ...(other?.output ?? [])]).not.toContain('read the backlog');
  const snapshot = await readUntil(({ channels }) => channels.length > 0);
  expect(snapshot.channels).toEqual([
    { channel: 'apns', pending: 40, oldestMs: 1_500, deferred: 2 },
  ]);
  busy?.count({ accepted: 1 });
  await readUntil((read) => accepted(read) === 2);
  const readers = [one, other].filter((counting) => counting?.output.includes('read the backlog'));
  expect(readers).toHaveLength(1);
  await Promise.all([one, other, busy].map((counting) => counting?.stop()));
});

test('gauges of processes that have ended are left out, and minutes expire', async () => {
  const counting = await startCounting(url());
  counting.count({ online: 5 });
  const { readAt, minutes } = await readUntil(({ gateways }) => gateways.length === 1);
  const key = `figures:${(minutes.at(-1)?.at ?? 0) / 60_000}`;
  await redis.hset(key, 'online:killed', `7|${readAt - 15_500}`, 'online:alive', `8|${readAt}`);
  const { gateways } = await reader.read();
  expect(gateways.map(({ gateway }) => gateway).sort()).toEqual(['alive', 'gateway-1']);
  expect(await redis.ttl(key)).toBeGreaterThan(86_000);
  expect(await redis.ttl('figures:watched')).toBeLessThanOrEqual(15);
  await counting.stop();
});
