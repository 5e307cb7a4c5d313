import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { startProcess } from '../support/child-process.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const SERVERS = { MONGODB_URI: 'mongodb://127.0.0.1:1/x', REDIS_URL: 'redis://127.0.0.1:1' };

test.each([
  ['api', ['API_KEY_PEPPER', 'DEVICE_AUTH_KEYS']],
  ['dashboard', ['API_KEY_PEPPER', 'CREDENTIAL_KEYS']],
  ['delivery-worker', ['CREDENTIAL_KEYS']],
  ['device-gateway', ['DEVICE_AUTH_KEYS']],
])('%s does not start without %j, which its error names', async (service, secrets) => {
  const child = startProcess(process.execPath, [`services/${service}/src/main.ts`], {
    cwd: ROOT,
    env: { PATH: process.env.PATH, ...SERVERS },
  });
  expect(await child.exited).toBe(1);
  for (const secret of secrets) expect(child.output()).toContain(secret);
});
