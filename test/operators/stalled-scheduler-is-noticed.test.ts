import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type DataServers, startDataServers } from '../support/operators/data-servers.ts';
import {
  readState,
  type ServiceProcess,
  startService,
} from '../support/operators/service-process.ts';

/** Keys that only the connection of the ticks uses. */
const TICK_KEYS = ['ticks:reconcile:claim', 'ticks:clean:claim'];
const PROBE_EVERY_MS = 1_000;
/** Longer than a loop may be blocked before the process is not alive. */
const SHARED_MS = 40_000;
/** As long as a loop must be blocked before the process is unready. */
const UNREADY_AFTER_MS = 15_000;

let servers: DataServers;
let stalled: ServiceProcess;
let healthy: ServiceProcess;
beforeAll(async () => {
  servers = await startDataServers();
  const { env, redis } = servers;
  healthy = await startService('scheduler', { ...env, REDIS_URL: redis.url });
  stalled = await startService('scheduler', env);
  for (const one of [healthy, stalled]) await one.untilReady();
}, 60_000);
afterAll(async () => {
  for (const one of [healthy, stalled]) {
    one?.kill('SIGKILL');
    await one?.exited;
  }
  await servers?.stop();
});

test('a scheduler that gets no ticks is ready while another one processes them, and unready otherwise', async () => {
  servers.redisProxy.muteConnections(TICK_KEYS);
  const statuses = new Set<number>();
  for (const end = performance.now() + SHARED_MS; performance.now() < end; ) {
    for (const path of ['/readyz', '/livez'] as const)
      statuses.add((await stalled.probe(path)).status);
    await sleep(PROBE_EVERY_MS);
  }
  expect([...statuses]).toEqual([200]);

  healthy.kill('SIGTERM');
  expect(await healthy.exited).toBe(0);
  const leftAt = performance.now();
  const { faults } = await stalled.untilStatus('/readyz', 503, 60_000);
  expect(faults).toEqual(['ticks: no progress']);
  expect(await readState(stalled.ops, 'ticks')).toBe('unready');
  expect(await readState(stalled.ops, 'queue maintenance')).toBe('ok');
  expect(performance.now() - leftAt).toBeGreaterThan(UNREADY_AFTER_MS - PROBE_EVERY_MS);
}, 150_000);
