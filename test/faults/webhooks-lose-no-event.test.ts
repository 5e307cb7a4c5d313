import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { WEBHOOK_LIMITS } from '../../packages/core/src/webhooks.ts';
import type { Redis } from '../../packages/presence/src/redis.ts';
import { type Responder, status } from '../../packages/webhooks/test/receiver.ts';
import { createTestTenant, type TestTenant } from '../support/api/tenants.ts';
import { addReceiver, untilKnown, type WebhookReceiver } from '../support/api/webhook-receiver.ts';
import { createDevicePool } from '../support/faults/device-pool.ts';
import { countArrivals } from '../support/faults/expect-complete.ts';
import { type SentPush, sendPush, untilOutcomes } from '../support/faults/pushes.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { newMqttDevice } from '../support/mqtt-device.ts';
import { emptyRedis, openRedis } from '../support/redis.ts';
import { type Stack, startStack } from '../support/stack.ts';
import { until } from '../support/until.ts';

/** Two batches for each push, and with the second push several requests for each webhook. */
const DEVICES = 1_500;
const PUSHES = 2;
/** A claim whose process died ends after half a minute. */
const EVENTS_MS = 120_000;

/** An app with devices that are offline, and the receiver of its webhook. */
interface Tenant extends TestTenant {
  tokens: string[];
  webhook: WebhookReceiver;
}

let stack: Stack;
let mongo: TestMongo;
let redis: Redis;
let tenants: [Tenant, Tenant];
beforeAll(async () => {
  stack = await startStack({ env: { CARILLON_ADDRESS_LIMITS: 'off' } });
  mongo = await openMongo(stack.dev);
  redis = await openRedis(stack.dev);
  tenants = [await startTenant(), await startTenant()];
});
afterAll(async () => {
  await Promise.all(tenants?.map(({ webhook }) => webhook.stop()) ?? []);
  redis?.disconnect();
  await mongo?.close();
  await stack?.stop();
});

async function startTenant(): Promise<Tenant> {
  const tenant = await createTestTenant(stack, { limit: null });
  const access = { home: stack.home, dev: tenant.dev };
  const { tokens } = await createDevicePool(access, mongo, { registered: DEVICES, real: 0 });
  return { ...tenant, tokens, webhook: await addReceiver(tenant) };
}

const turn = ({ api, webhook }: Tenant, state: 'on' | 'off') =>
  api('POST', `/webhooks/${webhook.id}/${state}`);

/** Sends pushes to all devices of a tenant, and ends them while the webhook is off: all of their events wait for it. */
async function endPushes(tenant: Tenant): Promise<SentPush[]> {
  // It was turned on again by the test before.
  await untilKnown(tenant, tenant.webhook);
  const pushes: SentPush[] = [];
  while (pushes.length < PUSHES) pushes.push(await sendPush(tenant, tenant.tokens));
  for (const push of pushes) await untilOutcomes(mongo, push, { inbox: DEVICES });
  await turn(tenant, 'off');
  for (const { id } of pushes) await tenant.api('DELETE', `/pushes/${id}`);
  for (const push of pushes) await untilOutcomes(mongo, push, { deleted: DEVICES });
  return pushes;
}

/** Responds to the second request when the fault is there: it was read, and the record of its result fails. */
function failAtSecondRequest({ webhook }: Tenant, fault: Fault): ReturnType<Fault> {
  const { promise, resolve, reject } = Promise.withResolvers<() => Promise<unknown>>();
  let requests = 0;
  const responder: Responder = async (request, response) => {
    requests += 1;
    if (requests === 2) await fault().then(resolve, reject);
    status(200)(request, response);
  };
  webhook.respondWith(responder);
  return promise;
}

const nameOf = (push: unknown, token: unknown, type: string) => `${push} ${token ?? ''} ${type}`;

/** Names the events of pushes that a webhook got, each as often as it has arrived. */
const receivedOf = ({ webhook }: Tenant, pushes: readonly SentPush[]) => {
  const ids = new Set(pushes.map(({ id }) => id));
  return webhook
    .events()
    .filter(({ data }) => ids.has(String(data.push)))
    .map(({ type, data }) => nameOf(data.push, data.token, type));
};

const expectedOf = ({ tokens }: Tenant, pushes: readonly SentPush[]) =>
  pushes.flatMap(({ id }) => [
    ...tokens.map((token) => nameOf(id, token, 'recipient.deleted')),
    nameOf(id, undefined, 'push.finished'),
  ]);

/** Expects every event of the pushes, and as duplicates at most the request during the fault. */
async function expectReported(tenant: Tenant, pushes: readonly SentPush[], fault: string) {
  const expected = new Set(expectedOf(tenant, pushes));
  const hasAll = () => new Set(receivedOf(tenant, pushes)).size >= expected.size;
  await until(hasAll, { timeoutMs: EVENTS_MS, everyMs: 200, what: `all events after ${fault}` });
  const received = receivedOf(tenant, pushes);
  expect(new Set(received)).toEqual(expected);
  const duplicates = received.length - expected.size;
  process.stdout.write(`duplicates ${fault}: ${duplicates} of ${expected.size} events\n`);
  expect(duplicates).toBeLessThanOrEqual(WEBHOOK_LIMITS.eventsPerRequest);
}

/** Expects that no tenant got an event of the other's push, or signed with the other's secret. */
function expectSeparate(all: readonly { tenant: Tenant; pushes: readonly SentPush[] }[]): void {
  for (const { tenant, pushes } of all) {
    expect([tenant.webhook.forged(), tenant.webhook.foreign()]).toEqual([0, 0]);
    for (const other of all.filter((one) => one.tenant !== tenant))
      expect(receivedOf(other.tenant, pushes)).toEqual([]);
  }
}

/** Applies a fault. Returns what waits until it is over. */
type Fault = () => Promise<() => Promise<unknown>>;
const kill =
  (service: string): Fault =>
  async () => {
    const old = stack.kill(service, 'SIGKILL');
    return () => stack.waitForRestart(service, old);
  };
test.each<[string, Fault]>([
  ['Redis was emptied', () => emptyRedis(redis).then(() => () => Promise.resolve())],
  ['MongoDB was killed', kill('mongodb')],
  ['delivery-worker was killed', kill('delivery-worker')],
])(
  'when %s in the middle of the reports',
  async (what, fault) => {
    const [first] = tenants;
    const all = await Promise.all(
      tenants.map(async (tenant) => ({ tenant, pushes: await endPushes(tenant) })),
    );
    const failed = failAtSecondRequest(first, fault);
    for (const tenant of tenants) await turn(tenant, 'on');
    const recover = await failed;
    await recover();
    for (const { tenant, pushes } of all) await expectReported(tenant, pushes, what);
    expectSeparate(all);
  },
  240_000,
);

test('a receiver that never responds delays no push', async () => {
  const [tenant] = tenants;
  tenant.webhook.respondWith(() => undefined);
  // A request that hangs.
  await untilKnown(tenant, tenant.webhook);
  const device = await newMqttDevice(tenant.dev);
  await device.connect();
  for (let n = 0; n < 3; n += 1) {
    const push = await sendPush(tenant, device.token);
    await until(() => countArrivals(device, push) === 1);
  }
  await device.disconnect();
});
