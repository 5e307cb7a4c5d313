import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { FcmUse } from '../../packages/core/src/channels/fcm.ts';
import { pushIdFrom } from '../../packages/core/src/ids.ts';
import { LIMITS } from '../../packages/core/src/limits.ts';
import type { InboxDocument } from '../../packages/store/src/documents.ts';
import type { TestTenant } from '../support/api/tenants.ts';
import { getPushStatus, type Sent, send } from '../support/end-to-end/pushes.ts';
import { createFleet } from '../support/guarantees/devices.ts';
import type { MqttDevice } from '../support/mqtt-device.ts';
import type { ProviderFixture } from '../support/providers/fixture.ts';
import { useSharedProviders } from '../support/shared-stack.ts';
import { until } from '../support/until.ts';

interface Outcomes {
  push: { state: string };
  channels: Record<string, Record<string, number>>;
  reasons: Record<string, number>;
}

const MAX_TRIES = 20;

let fixture: ProviderFixture;
let tenant: TestTenant;
const fleet = createFleet(() => tenant.dev);
beforeAll(async () => {
  fixture = await useSharedProviders();
});
afterAll(async () => {
  await fleet.disconnectAll();
  await fixture?.close();
});

/** An app that uses FCM so, and an Android device of it with an FCM token, which has connected. */
async function useFcm(fcm: FcmUse): Promise<{ device: MqttDevice; address: string }> {
  tenant = await fixture.tenant({ fcm });
  const device = await fleet.online('android');
  const address = `fcm-${randomBytes(20).toString('hex')}`;
  await fixture.store.devices.setAddress(tenant.app, device.token, { channel: 'fcm', address });
  return { device, address };
}

const getOutcomes = async ({ id }: Sent) =>
  (await tenant.api<Outcomes>('GET', `/pushes/${id}/outcomes`)).json;

/** Waits until the recipients of a push are counted so, by channel and outcome. */
async function untilCounted(push: Sent, channels: Outcomes['channels']): Promise<Outcomes> {
  let outcomes = await getOutcomes(push);
  const isCounted = async () => {
    outcomes = await getOutcomes(push);
    return JSON.stringify(outcomes.channels) === JSON.stringify(channels);
  };
  await until(isCounted, { what: JSON.stringify(channels) }).catch(() => undefined);
  expect(outcomes.channels).toEqual(channels);
  return outcomes;
}

const untilFinished = (push: Sent) =>
  until(async () => (await getOutcomes(push)).push.state === 'finished', { what: 'the end' });

const countReceived = async ({ id }: Sent) => (await fixture.sandbox.received(id)).length;

/**
 * Sends to a device that has just connected, until a push is delivered over MQTT alone: FCM gets one at once that meets the
 * reading of the inbox, or whose receipt is late.
 *
 * @returns the pushes; the last one was delivered so
 */
async function sendUntilDelivered({ token }: MqttDevice): Promise<Sent[]> {
  const sent: Sent[] = [];
  while (sent.length < MAX_TRIES) {
    const push = await send(tenant, token);
    sent.push(push);
    await untilFinished(push);
    const { channels } = await getOutcomes(push);
    if (channels.mqtt?.delivered === 1 && (await countReceived(push)) === 0) return sent;
  }
  throw new Error('no push was delivered over MQTT alone');
}

/** Fills the inbox of a device with rows of pushes that do not exist. */
async function fillInbox({ token }: MqttDevice): Promise<void> {
  const { db } = fixture.store;
  await db.collection<InboxDocument>('inbox').insertMany(
    Array.from({ length: LIMITS.pendingPerDevice }, (_, n) => {
      const push = pushIdFrom(n + 1);
      return { _id: `${token}:${push}`, push, work: push, position: 0 };
    }),
  );
  await db.collection<{ _id: string }>('full').insertOne({ _id: token });
  // A worker reads the list of full inboxes again: it keeps that there are none for some seconds.
  await until(
    async () => {
      const push = await send(tenant, token);
      const { channels } = await until(
        async () => {
          const outcomes = await getOutcomes(push);
          return JSON.stringify(outcomes.channels) !== '{"mqtt":{"pending":1}}' && outcomes;
        },
        { what: 'an answer', timeoutMs: 3_000 },
      ).catch(() => getOutcomes(push));
      return channels.fcm !== undefined || channels.mqtt?.failed === 1;
    },
    { what: 'a full inbox', timeoutMs: 60_000 },
  );
}

test('an answer of the fallback shows at once, and a later receipt is stronger', async () => {
  const { device } = await useFcm(0);
  await device.disconnect();
  const push = await send(tenant, device.token);
  const { push: head } = await untilCounted(push, { fcm: { sent: 1 } });
  expect(head.state).toBe('open');
  expect((await getPushStatus(tenant, push.id)).pending_devices).toEqual([device.token]);
  await device.connect();
  await device.waitFor(1);
  await untilCounted(push, { mqtt: { delivered: 1 } });
  await untilFinished(push);
  expect(await countReceived(push)).toBe(1);
});

test('with FCM first, its acceptance ends the push for a device that is not connected', async () => {
  const { device } = await useFcm('first');
  await device.disconnect();
  const push = await send(tenant, device.token);
  await untilCounted(push, { fcm: { sent: 1 } });
  await untilFinished(push);
  expect((await getPushStatus(tenant, push.id)).pending_devices).toEqual([]);
  await device.connect();
  const sent = await sendUntilDelivered(device);
  const next = sent.pop() as Sent;
  await untilCounted(next, { mqtt: { delivered: 1 } });
  const repeated = new Set(sent.map(({ payload }) => payload));
  const payloads = device.arrivals.map(({ payload }) => payload);
  expect(payloads.filter((payload) => !repeated.has(payload))).toEqual([next.payload]);
  expect([await countReceived(push), await countReceived(next)]).toEqual([1, 0]);
});

test('with FCM first, a push that FCM does not accept waits in the inbox', async () => {
  const { device, address } = await useFcm('first');
  await device.disconnect();
  await fixture.sandbox.scriptPermanently('fcm', address, { as: 'SENDER_ID_MISMATCH' });
  const push = await send(tenant, device.token);
  await until(async () => (await countReceived(push)) > 0, { what: 'a request' });
  await device.connect();
  expect((await device.waitFor(1)).map(({ payload }) => payload)).toEqual([push.payload]);
  await untilCounted(push, { mqtt: { delivered: 1 } });
  await untilFinished(push);
});

test('a device whose inbox is full gets its pushes over FCM', async () => {
  const { device, address } = await useFcm(3_600);
  await device.disconnect();
  await fillInbox(device);
  const push = await send(tenant, device.token);
  await untilCounted(push, { fcm: { sent: 1 } });
  await untilFinished(push);
  await fixture.sandbox.scriptPermanently('fcm', address, { as: 'SENDER_ID_MISMATCH' });
  const refused = await send(tenant, device.token);
  const { reasons } = await untilCounted(refused, { mqtt: { failed: 1 } });
  expect(reasons).toEqual({ 'inbox-full': 1 });
  await untilFinished(refused);
});
