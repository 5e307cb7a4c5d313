import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import type { TestServer } from '../../packages/presence/test/start-server.ts';
import { runCarillon } from '../../services/cli/test/run-carillon.ts';
import { createRedisServer, type RedisServer } from '../support/faults/redis-server.ts';
import { startStackWithoutLimits } from '../support/guarantees/start-unlimited.ts';
import { startMongod } from '../support/mongod-server.ts';
import { type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { probe } from '../support/operators/service-process.ts';
import type { Stack } from '../support/stack.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';

/** Of each server's two minutes, one is spent frozen (no response), one stopped (connections are refused). */
const PHASE_MS = 60_000;
const PROBE_EVERY_MS = 2_000;
/** Guarantee G15, with a margin for the network and for a busy machine. */
const RESPONSE_WITHIN_MS = 3_300;
const RECOVERED_WITHIN_MS = 30_000;

let redis: RedisServer;
let mongod: TestServer;
let mongodProxy: TcpProxy;
let stack: Stack;
let device: MqttDevice;
beforeAll(async () => {
  [redis, mongod] = await Promise.all([createRedisServer(), startMongod()]);
  await redis.start();
  mongodProxy = await startTcpProxy(mongod.port);
  const MONGODB_URI = `mongodb://127.0.0.1:${mongodProxy.port}/carillon`;
  await runCarillon(['migrate'], { env: { MONGODB_URI } });
  const env = { MONGODB_URI, REDIS_URL: redis.url };
  stack = await startStackWithoutLimits({ dashboards: 1, env });
  device = await newMqttDevice(stack.dev);
  await device.connect();
});
afterEach(() => {
  redis.thaw();
  process.kill(mongod.pid, 'SIGCONT');
});
afterAll(async () => {
  await device?.disconnect();
  await stack?.stop();
  await mongodProxy?.stop();
  await mongod?.stop();
  await redis?.remove();
});

const readPids = () =>
  stack.dev.processes.map(({ service, index }) => [service, index, stack.pidOf(service, index)]);

/** Requests every process's probes for some time. Returns those that did not respond with 200. */
async function probeAllFor(durationMs: number): Promise<string[]> {
  const failed: string[] = [];
  const urls = stack.dev.processes.flatMap(({ ops }) =>
    ops === undefined ? [] : [`${ops}/readyz`, `${ops}/livez`],
  );
  for (const end = performance.now() + durationMs; performance.now() < end; ) {
    await Promise.all(
      urls.map(async (url) => {
        const { status, faults } = await probe(url);
        if (status !== 200) failed.push(`${url}: ${status} ${faults.join()}`);
      }),
    );
    await sleep(PROBE_EVERY_MS);
  }
  return failed;
}

/** Sends pushes for some time. Returns those without the expected response. */
async function pushFor(durationMs: number, expectedStatus: number): Promise<string[]> {
  const wrong: string[] = [];
  for (const end = performance.now() + durationMs; performance.now() < end; ) {
    const startedAt = performance.now();
    const { status, text } = await stack.api('POST', '/push', { to: device.token, data: { n: 1 } });
    const tookMs = performance.now() - startedAt;
    JSON.parse(text);
    if (status !== expectedStatus || tookMs > RESPONSE_WITHIN_MS)
      wrong.push(`${status} after ${Math.round(tookMs)} ms: ${text}`);
    await sleep(PROBE_EVERY_MS);
  }
  return wrong;
}

async function expectDelivery(): Promise<void> {
  const mark = crypto.randomUUID();
  await until(
    async () => {
      const { status } = await stack.api('POST', '/push', { to: device.token, data: { mark } });
      return status === 200;
    },
    { timeoutMs: RECOVERED_WITHIN_MS, everyMs: 200, what: 'an accepted push' },
  );
  if (!device.connected) await device.connect();
  const hasArrived = () => device.arrivals.some(({ payload }) => payload.includes(mark));
  await until(hasArrived, { timeoutMs: RECOVERED_WITHIN_MS, what: 'the push' });
}

test('MongoDB unavailable for two minutes: the API responds with 500 in time, nothing is unready or restarted', async () => {
  await expectDelivery();
  const pids = readPids();
  process.kill(mongod.pid, 'SIGSTOP');
  const whileFrozen = [await Promise.all([probeAllFor(PHASE_MS), pushFor(PHASE_MS, 500)])];
  mongodProxy.cut();
  process.kill(mongod.pid, 'SIGCONT');
  whileFrozen.push(await Promise.all([probeAllFor(PHASE_MS), pushFor(PHASE_MS, 500)]));
  mongodProxy.restore();
  expect(whileFrozen.flat(2)).toEqual([]);
  await expectDelivery();
  // The time in which the loops were blocked by MongoDB no longer counts.
  expect(await probeAllFor(PHASE_MS)).toEqual([]);
  expect(readPids()).toEqual(pids);
}, 300_000);

test('Redis unavailable for two minutes: pushes are accepted, nothing is unready or restarted', async () => {
  const pids = readPids();
  redis.freeze();
  const failed = [await Promise.all([probeAllFor(PHASE_MS), pushFor(PHASE_MS, 200)])];
  await redis.kill();
  failed.push(await Promise.all([probeAllFor(PHASE_MS), pushFor(PHASE_MS, 200)]));
  await redis.start();
  expect(failed.flat(2)).toEqual([]);
  await expectDelivery();
  expect(await probeAllFor(PHASE_MS)).toEqual([]);
  expect(readPids()).toEqual(pids);
}, 300_000);
