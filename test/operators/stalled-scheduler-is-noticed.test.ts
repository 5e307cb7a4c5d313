import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { startRedis, type TestServer } from '../../packages/presence/test/start-server.ts';
import { type ServiceProcess, startService } from '../support/operators/service-process.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { startTestDatabase, type TestDatabase } from '../support/test-database.ts';
import { until } from '../support/until.ts';

/** What only the connections of BullMQ's workers send. */
const WORKER_COMMANDS = ['bzpopmin', ':stalled-check'];
const PROBE_EVERY_MS = 1_000;
/** Longer than a loop may stand still before the process is not alive. */
const SHARED_MS = 40_000;
/** As long as a loop must stand still before the process is unready. */
const UNREADY_AFTER_MS = 15_000;

let database: TestDatabase;
let redis: TestServer & { url: string };
let proxy: TcpProxy;
let stalled: ServiceProcess;
let healthy: ServiceProcess;
beforeAll(async () => {
  [database, redis] = await Promise.all([startTestDatabase(), startRedis()]);
  proxy = await startTcpProxy(redis.port);
  const env = { MONGODB_URI: database.uri };
  healthy = await startService('scheduler', { ...env, REDIS_URL: redis.url });
  stalled = await startService('scheduler', {
    ...env,
    REDIS_URL: `redis://127.0.0.1:${proxy.port}`,
  });
  for (const one of [healthy, stalled])
    await until(async () => (await one.probe('/readyz')).status === 200, { timeoutMs: 30_000 });
}, 60_000);
afterAll(async () => {
  for (const one of [healthy, stalled]) {
    one?.kill('SIGKILL');
    await one?.exited;
  }
  await proxy?.stop();
  await redis?.stop();
  await database?.stop();
});

test('a scheduler that gets no ticks is ready while another takes them, and not when they are left', async () => {
  proxy.muteConnections(WORKER_COMMANDS);
  const answers = new Set<number>();
  for (const end = performance.now() + SHARED_MS; performance.now() < end; ) {
    for (const path of ['/readyz', '/livez'] as const)
      answers.add((await stalled.probe(path)).status);
    await sleep(PROBE_EVERY_MS);
  }
  expect([...answers]).toEqual([200]);

  healthy.kill('SIGTERM');
  expect(await healthy.exited).toBe(0);
  const leftAt = performance.now();
  const isUnready = async () => {
    const result = await stalled.probe('/readyz');
    return result.status === 503 && result;
  };
  const { faults } = await until(isUnready, { timeoutMs: 60_000, everyMs: PROBE_EVERY_MS });
  expect(faults).toEqual(['queue maintenance: no progress']);
  expect(performance.now() - leftAt).toBeGreaterThan(UNREADY_AFTER_MS - PROBE_EVERY_MS);
}, 150_000);
