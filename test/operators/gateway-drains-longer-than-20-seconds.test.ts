import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { startRedis, type TestServer } from '../../packages/presence/test/start-server.ts';
import { createDevicePool, type DevicePool } from '../support/faults/device-pool.ts';
import {
  SERVICE_SECRETS,
  type ServiceProcess,
  startService,
} from '../support/operators/service-process.ts';
import { createTemporaryFolder } from '../support/temporary-folder.ts';
import { startTestDatabase, type TestDatabase } from '../support/test-database.ts';
import { until } from '../support/until.ts';

const DRAIN_SECONDS = 25;
/** The stop deadline without a drain. */
const FORMER_DEADLINE_MS = 20_000;
/** One connection is closed every 50 ms, so that their drain lasts 24 s. */
const CONNECTIONS = 480;

let database: TestDatabase;
let redis: TestServer & { url: string };
let gateway: ServiceProcess;
let pool: DevicePool;
beforeAll(async () => {
  [database, redis] = await Promise.all([startTestDatabase(), startRedis()]);
  gateway = await startService('device-gateway', {
    MONGODB_URI: database.uri,
    REDIS_URL: redis.url,
    GATEWAY_DRAIN_SECONDS: String(DRAIN_SECONDS),
  });
  await gateway.untilReady();
  const home = createTemporaryFolder();
  const secrets = { deviceAuthKeys: SERVICE_SECRETS.DEVICE_AUTH_KEYS };
  writeFileSync(join(home, 'secrets.json'), JSON.stringify(secrets));
  const dev = { app: 'app', mqtt: `mqtt://127.0.0.1:${gateway.port}` };
  pool = await createDevicePool({ home, dev }, database, {
    registered: CONNECTIONS,
    real: CONNECTIONS,
  });
});
afterAll(async () => {
  await Promise.all(pool?.devices.map((device) => device.disconnect()) ?? []);
  gateway?.kill('SIGKILL');
  await gateway?.exited;
  await redis?.stop();
  await database?.stop();
});

test('and closes all connections before it ends', async () => {
  const stoppedAt = performance.now();
  gateway.kill('SIGTERM');
  const countConnected = () => pool.devices.filter(({ connected }) => connected).length;
  await until(() => countConnected() < CONNECTIONS / 2);
  expect(await gateway.probe('/readyz')).toEqual({ status: 503, faults: ['stopping'] });
  expect((await gateway.probe('/livez')).status).toBe(200);
  expect(await gateway.exited).toBe(0);
  const tookMs = performance.now() - stoppedAt;
  process.stdout.write(`drained ${CONNECTIONS} connections in ${Math.round(tookMs)} ms\n`);
  expect(tookMs).toBeGreaterThan(FORMER_DEADLINE_MS);
  expect(countConnected()).toBe(0);
});
