import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type DataServers, startDataServers } from '../support/operators/data-servers.ts';
import {
  readState,
  type ServiceProcess,
  startService,
} from '../support/operators/service-process.ts';

/** In the keys that only the connection of the ticks uses. */
const TICK_KEYS = ['tick:reconcile', 'tick:clean'];
/** As long as a loop must be blocked before the process is unready. */
const UNREADY_AFTER_MS = 15_000;
/** Before a connection without responses is muted, its last claim may have been a second ago. */
const CLAIMED_MS = 1_000;

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

test('a scheduler whose claims get no response turns unready, and another one runs the ticks', async () => {
  const mutedAt = performance.now();
  servers.redisProxy.muteConnections(TICK_KEYS);
  const { faults } = await stalled.untilStatus('/readyz', 503, 60_000);
  expect(performance.now() - mutedAt).toBeGreaterThan(UNREADY_AFTER_MS - CLAIMED_MS);
  expect(faults).toEqual(['ticks: no progress']);
  expect(await readState(stalled.ops, 'ticks')).toBe('unready');
  expect(await readState(stalled.ops, 'queue maintenance')).toBe('ok');
  expect((await healthy.probe('/readyz')).status).toBe(200);
  expect(await readState(healthy.ops, 'ticks')).toBe('ok');
}, 90_000);
