import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { WORKER_QUEUES } from '../../packages/queue/src/jobs.ts';
import { runCarillon } from '../../services/cli/test/run-carillon.ts';
import type { TestTenant } from '../support/api/tenants.ts';
import { startDeliveryWorker } from '../support/delivery-worker.ts';
import { send } from '../support/end-to-end/pushes.ts';
import { readMetric } from '../support/metric-values.ts';
import { newMqttDevice } from '../support/mqtt-device.ts';
import type { ServiceProcess } from '../support/operators/service-process.ts';
import { registerIphone } from '../support/providers/devices.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import { untilFinal } from '../support/providers/outcomes.ts';
import { findProcess } from '../support/stack/dev-file.ts';
import { until } from '../support/until.ts';

const QUEUE = 'deliver-apns';
const OTHER_QUEUES = WORKER_QUEUES.filter((name) => name !== QUEUE);
const QUEUE_AGE = 'carillon_unserved_queue_age_seconds';

let fixture: ProviderFixture;
let tenant: TestTenant;
const workers: ServiceProcess[] = [];
beforeAll(async () => {
  fixture = await openProviderFixture({ deliveryWorkers: 0 });
  tenant = await fixture.tenant();
});
afterAll(async () => {
  await Promise.all(workers.map((worker) => worker.stop()));
  await fixture?.close();
});

async function startWorker(env: Record<string, string>): Promise<ServiceProcess> {
  const worker = await startDeliveryWorker(fixture.stack, env);
  workers.push(worker);
  return worker;
}

/** Starts a worker and waits until it is ready. */
async function startReadyWorker(env: Record<string, string>): Promise<ServiceProcess> {
  const worker = await startWorker(env);
  await worker.untilReady();
  return worker;
}

/** Reads how long a queue has had a job and no worker. */
async function readQueueAge(queue: string): Promise<number | undefined> {
  return (await readMetric(findProcess(fixture.stack.dev, 'scheduler', 0).ops, QUEUE_AGE))[queue];
}

async function checkWorkers(): Promise<{ ok: boolean; detail: string } | undefined> {
  const { mongodb, redis } = fixture.stack.dev;
  const env = { MONGODB_URI: mongodb, REDIS_URL: redis };
  const { out } = await runCarillon(['--json', 'doctor'], { env });
  const findings = JSON.parse(out) as { check: string; ok: boolean; detail: string }[];
  return findings.find(({ check }) => check === 'workers');
}

const countBatches = async ({ ops }: ServiceProcess) =>
  (await readMetric(ops, 'carillon_works_total')).settled ?? 0;

test('a queue without a worker is named until it has one, and each queue has its own worker', async () => {
  const others = await startReadyWorker({ QUEUES: OTHER_QUEUES.join(',') });
  const [device, iphone] = [await newMqttDevice(tenant.dev), await registerIphone(tenant.dev)];
  await device.connect();
  await until(async () => (await checkWorkers())?.ok);
  expect(await readQueueAge(QUEUE)).toBe(0);

  const overMqtt = await send(tenant, device.token, {});
  const overApns = await send(tenant, iphone.token, {});
  expect((await device.waitFor(1)).map(({ payload }) => payload)).toEqual([overMqtt.payload]);
  const named = async () => (await checkWorkers())?.detail.includes(QUEUE);
  await until(named, { what: 'the queue in the findings of the doctor' });
  const age = await until(async () => (await readQueueAge(QUEUE)) || undefined);
  await until(async () => ((await readQueueAge(QUEUE)) ?? 0) > age + 3, { timeoutMs: 60_000 });
  for (const queue of OTHER_QUEUES) expect(await readQueueAge(queue)).toBe(0);

  const apns = await startReadyWorker({ QUEUES: QUEUE });
  expect(await untilFinal(fixture.store, overApns, iphone.token)).toEqual({ outcome: 'sent' });
  await until(async () => (await readQueueAge(QUEUE)) === 0);
  expect(await checkWorkers()).toMatchObject({ ok: true });
  expect([await countBatches(others), await countBatches(apns)]).toEqual([1, 1]);
  await device.disconnect();
});

test('a worker without a queue of a provider needs no keys of their secrets', async () => {
  await startReadyWorker({ QUEUES: 'send, deliver-mqtt,finish,presence', CREDENTIAL_KEYS: '' });
});

test.each([
  [{ QUEUES: 'send,deliver-sms' }, 'unknown: deliver-sms'],
  [{ QUEUES: 'maintenance' }, 'unknown: maintenance'],
  [{ QUEUES: ' , ' }, 'no queue is named'],
])('%j is refused with the names of all queues', async (env, fault) => {
  const worker = await startWorker(env);
  expect(await worker.exited).toBe(1);
  expect(worker.output()).toContain(`${fault}; write some of ${WORKER_QUEUES.join(', ')}`);
});

test('a queue of a provider without the keys of their secrets is refused', async () => {
  const worker = await startWorker({ QUEUES: 'deliver-fcm', CREDENTIAL_KEYS: '' });
  expect(await worker.exited).toBe(1);
  expect(worker.output()).toMatch(/required for the queues of providers.*CREDENTIAL_KEYS/s);
});
