import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { startRedis, type TestServer } from '../../packages/presence/test/start-server.ts';
import { type ServiceProcess, startService } from '../support/operators/service-process.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { startTestDatabase, type TestDatabase } from '../support/test-database.ts';
import { until } from '../support/until.ts';

const PROBE_EVERY_MS = 1_000;
const STALLED_WITHIN_MS = 90_000;
const RECOVERED_WITHIN_MS = 30_000;

let database: TestDatabase;
let redis: TestServer & { url: string };
let proxy: TcpProxy;
let gateway: ServiceProcess;
beforeAll(async () => {
  [database, redis] = await Promise.all([startTestDatabase(), startRedis()]);
  proxy = await startTcpProxy(redis.port);
  gateway = await startService('device-gateway', {
    MONGODB_URI: database.uri,
    REDIS_URL: `redis://127.0.0.1:${proxy.port}`,
  });
  await untilStatus('/readyz', 200, 30_000);
}, 60_000);
afterAll(async () => {
  gateway?.kill('SIGKILL');
  await gateway?.exited;
  await proxy?.stop();
  await redis?.stop();
  await database?.stop();
});

function untilStatus(path: '/readyz' | '/livez', status: number, timeoutMs: number) {
  const answers = async () => {
    const result = await gateway.probe(path);
    return result.status === status && result;
  };
  return until(answers, { timeoutMs, everyMs: PROBE_EVERY_MS, what: `${path} ${status}` });
}

test.each([
  ['stream reader', 'xread'],
  ['lease', '\r\ng:'],
])(
  'whose %s gets no answers, and is well when answers come again',
  async (loop, command) => {
    const unmute = proxy.muteConnections([command]);
    const faults = (await untilStatus('/livez', 503, STALLED_WITHIN_MS)).faults;
    expect(faults).toContain(`${loop}: no progress`);
    expect((await gateway.probe('/readyz')).status).toBe(503);
    unmute();
    await untilStatus('/readyz', 200, RECOVERED_WITHIN_MS);
    await untilStatus('/livez', 200, RECOVERED_WITHIN_MS);
  },
  150_000,
);
