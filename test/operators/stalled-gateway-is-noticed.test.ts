import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type DataServers, startDataServers } from '../support/operators/data-servers.ts';
import {
  readState,
  type ServiceProcess,
  startService,
} from '../support/operators/service-process.ts';

const STALLED_WITHIN_MS = 90_000;
const RECOVERED_WITHIN_MS = 30_000;

let servers: DataServers;
let gateway: ServiceProcess;
beforeAll(async () => {
  servers = await startDataServers();
  gateway = await startService('device-gateway', servers.env);
  await gateway.untilReady();
}, 60_000);
afterAll(async () => {
  gateway?.kill('SIGKILL');
  await gateway?.exited;
  await servers?.stop();
});

test.each([
  ['stream reader', 'xread'],
  ['lease', '\r\ng:'],
])(
  'whose %s gets no responses, and is healthy when responses arrive again',
  async (loop, command) => {
    const unmute = servers.redisProxy.muteConnections([command]);
    const faults = (await gateway.untilStatus('/livez', 503, STALLED_WITHIN_MS)).faults;
    expect(faults).toContain(`${loop}: no progress`);
    expect((await gateway.probe('/readyz')).status).toBe(503);
    expect(await readState(gateway.ops, loop)).toBe('dead');
    unmute();
    await gateway.untilStatus('/readyz', 200, RECOVERED_WITHIN_MS);
    await gateway.untilStatus('/livez', 200, RECOVERED_WITHIN_MS);
  },
  150_000,
);
