import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { TestServer } from '../../packages/presence/test/start-server.ts';
import { makeAuthority } from '../../packages/runtime/src/certificates.ts';
import { runCarillon } from '../../services/cli/test/run-carillon.ts';
import { startDeliveryWorker } from '../support/delivery-worker.ts';
import { send } from '../support/end-to-end/pushes.ts';
import { newMqttDevice } from '../support/mqtt-device.ts';
import { type Stack, startStack } from '../support/stack.ts';
import { createTemporaryFolder } from '../support/temporary-folder.ts';
import { createTlsServers } from '../support/tls-servers.ts';
import { until } from '../support/until.ts';

const DAYS = 2;

const folder = createTemporaryFolder();
let redis: TestServer & { url: string };
let stack: Stack;
let ca: string;
let wrongCa: string;
beforeAll(async () => {
  const servers = await createTlsServers();
  ca = write('ca.pem', servers.ca);
  wrongCa = write('other-ca.pem', (await makeAuthority(DAYS)).certificate);
  redis = await servers.startRedis();
  stack = await startStack({ sandbox: false, env: { REDIS_URL: redis.url, REDIS_CA_FILE: ca } });
});
afterAll(async () => {
  await stack?.stop();
  await redis?.stop();
});

function write(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

/** Runs the doctor's check of Redis with some authority, until Redis responds in time, which is short for a busy machine. */
function checkRedis(env: Record<string, string>) {
  const servers = { MONGODB_URI: stack.dev.mongodb, REDIS_URL: redis.url };
  return until(async () => {
    const { out } = await runCarillon(['--json', 'doctor'], { env: { ...servers, ...env } });
    const findings = JSON.parse(out) as { check: string; ok: boolean; detail: string }[];
    const found = Object.fromEntries(findings.map(({ check, ...finding }) => [check, finding]));
    return !found.redis?.detail.includes('in time') && found;
  });
}

test('a push passes through queues and presence, and the doctor reports no fault', async () => {
  const device = await newMqttDevice(stack.dev);
  await device.connect();
  const push = await send(stack, device.token, {});
  expect((await device.waitFor(1)).map(({ payload }) => payload)).toEqual([push.payload]);
  await device.disconnect();
  const missed = await send(stack, device.token, {});
  await device.connect();
  expect((await device.waitFor(2)).at(-1)?.payload).toBe(missed.payload);
  await device.disconnect();
  const { redis: server, workers } = await checkRedis({ REDIS_CA_FILE: ca });
  expect([server, workers]).toEqual([
    expect.objectContaining({ ok: true }),
    expect.objectContaining({ ok: true }),
  ]);
});

test.each([
  ['another authority', () => ({ REDIS_CA_FILE: wrongCa }), 'the authority of REDIS_CA_FILE'],
  ['none', () => ({}), 'a public authority'],
])('with %s the doctor names the certificate', async (_which, env, verifier) => {
  const { redis: server } = await checkRedis(env());
  const refused = `the certificate of Redis at 127.0.0.1:${redis.port} is not verified by ${verifier}`;
  expect(server).toMatchObject({ ok: false, detail: expect.stringContaining(refused) });
});

test('with another authority a service logs the fault, and takes no job', async () => {
  const env = { REDIS_URL: redis.url, REDIS_CA_FILE: wrongCa };
  const worker = await startDeliveryWorker(stack, env);
  const refused = 'is not verified by the authority of REDIS_CA_FILE';
  await until(() => worker.output().includes(refused));
  await worker.stop();
});

test('an invalid certificate of an authority is refused at the start', async () => {
  const worker = await startDeliveryWorker(stack, {
    REDIS_CA_FILE: write('no.pem', 'no certificate'),
  });
  expect(await worker.exited).toBe(1);
  expect(worker.output()).toMatch(/write a certificate in PEM format\s+→ at REDIS_CA/);
});
