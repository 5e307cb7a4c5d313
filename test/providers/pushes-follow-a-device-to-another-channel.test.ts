import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createKey, type TestTenant } from '../support/api/tenants.ts';
import { getDeviceInfo, type Sent, send, untilInbox } from '../support/end-to-end/pushes.ts';
import type { MqttDevice } from '../support/mqtt-device.ts';
import { APPLE_BUILD, createDeviceCalls } from '../support/providers/device-calls.ts';
import { registerIphone } from '../support/providers/devices.ts';
import type { ProviderFixture } from '../support/providers/fixture.ts';
import { untilOutcomeCounts } from '../support/providers/outcomes.ts';
import { useSharedProviders } from '../support/shared-stack.ts';
import { callApi } from '../support/stack/call-api.ts';

/** Seconds until a scheduled push is due. Its device changes before, which takes a tenth of that. */
const DUE_AFTER_SECONDS = 6;

let fixture: ProviderFixture;
let tenant: TestTenant;
beforeAll(async () => {
  fixture = await useSharedProviders();
  tenant = await fixture.tenant({ fcm: 3_600 });
});
afterAll(async () => {
  await disconnectAll();
  await fixture?.close();
});

const newFcmToken = () => `fcm-${randomBytes(20).toString('hex')}`;
const newAppleToken = () => randomBytes(32).toString('hex');
const byApns = (pushToken: string) => ({ pushToken, ...APPLE_BUILD });
const byFcm = (fcmToken: string) => ({ fcmToken });

const { register, setToken, connect, disconnectAll } = createDeviceCalls(() => tenant);

/** Sends a push that is due in some seconds, changes its devices, and checks that it was not due yet. */
async function sendAndChange(tokens: string[], change: () => Promise<unknown>): Promise<Sent> {
  const schedule = Math.ceil(Date.now() / 1_000) + DUE_AFTER_SECONDS;
  const push = await send(tenant, tokens, { schedule });
  await change();
  expect(Date.now()).toBeLessThan(schedule * 1_000);
  return push;
}

/** Lists who got a push: each provider and address. */
async function listReceived({ id }: Sent) {
  const received = await fixture.sandbox.received(id);
  return received.map(({ channel, to }) => `${channel} ${to}`).sort();
}

const outcomesOf = async ({ id }: Sent) =>
  (await tenant.api<{ channels: object }>('GET', `/pushes/${id}/outcomes`)).json.channels;

test('of a push for several iPhones each gets one copy, whatever it has changed to', async () => {
  const toFcm = await register({ platform: 'ios', ...byApns(newAppleToken()) });
  const toApns = await register({ platform: 'ios', ...byFcm(newFcmToken()) });
  const [one, other] = [await registerIphone(tenant.dev), await registerIphone(tenant.dev)];
  const [fcmToken, pushToken] = [newFcmToken(), newAppleToken()];
  const tokens = [one, toFcm, toApns, other].map(({ token }) => token);
  const push = await sendAndChange(tokens, async () => {
    await setToken(toFcm, byFcm(fcmToken));
    await setToken(toApns, byApns(pushToken));
  });
  await untilOutcomeCounts(fixture.store, push, { sent: 4 });
  expect(await listReceived(push)).toEqual(
    [`apns ${one.address}`, `apns ${other.address}`, `fcm ${fcmToken}`, `apns ${pushToken}`].sort(),
  );
});

test('a push for an iPhone whose app has moved from APNs to FCM arrives there', async () => {
  tenant = await fixture.tenant();
  const phone = await register({ platform: 'ios', ...byApns(newAppleToken()) });
  const after = newFcmToken();
  const push = await sendAndChange([phone.token], async () => {
    await setToken(phone, byFcm(after));
    await fixture.store.credentials.remove({ app: tenant.app, channel: 'apns' });
  });
  await untilOutcomeCounts(fixture.store, push, { sent: 1 });
  expect(await listReceived(push)).toEqual([`fcm ${after}`]);
  expect(await outcomesOf(push)).toEqual({ fcm: { sent: 1 } });
});

test('a push for a phone whose FCM token ends before it is due arrives over MQTT', async () => {
  tenant = await fixture.tenant({ fcm: 3_600 });
  const fcmToken = newFcmToken();
  const device = await register({ platform: 'android', fcmToken });
  await fixture.sandbox.scriptPermanently('fcm', fcmToken, { as: 'UNREGISTERED' });
  let phone: MqttDevice | undefined;
  const push = await sendAndChange([device.token], async () => {
    const refused = await send(tenant, device.token);
    await untilOutcomeCounts(fixture.store, refused, { gone: 1 });
    phone = await connect(device);
  });
  await untilOutcomeCounts(fixture.store, push, { delivered: 1 });
  expect(phone?.arrivals.map(({ payload }) => payload)).toEqual([push.payload]);
  expect(await outcomesOf(push)).toEqual({ mqtt: { delivered: 1 } });
  expect(await listReceived(push)).toEqual([]);
});

test('phones of a push over FCM part: an iPhone to APNs, one that has lost its token to its inbox, one stays', async () => {
  tenant = await fixture.tenant({ fcm: 3_600 });
  // Batches are in the order of tokens, so with several of each every order is there.
  const phones = await Promise.all(
    Array.from({ length: 9 }, (_, n) =>
      register({ platform: n % 3 === 0 ? 'ios' : 'android', ...byFcm(newFcmToken()) }),
    ),
  );
  const [iphones = [], losing = [], staying = []] = [0, 1, 2].map((kind) =>
    phones.filter((_, n) => n % 3 === kind),
  );
  const push = await sendAndChange(
    phones.map(({ token }) => token),
    () =>
      Promise.all([
        ...iphones.map((phone) => setToken(phone, byApns(newAppleToken()))),
        ...losing.map((phone) => setToken(phone, { fcmToken: null })),
      ]),
  );
  await untilOutcomeCounts(fixture.store, push, { sent: 6, inbox: 3 });
  const over = (await fixture.sandbox.received(push.id)).map(({ channel }) => channel).sort();
  expect(over).toEqual(['apns', 'apns', 'apns', 'fcm', 'fcm', 'fcm']);
  for (const { token } of losing) await untilInbox(tenant, token, [push.id]);
  for (const { token } of [...iphones, ...staying]) await untilInbox(tenant, token, []);
});

test('a push for a phone whose app gives up FCM before it is due waits for its connection', async () => {
  tenant = await fixture.tenant({ fcm: 3_600 });
  const device = await register({ platform: 'android', ...byFcm(newFcmToken()) });
  const push = await sendAndChange([device.token], () =>
    fixture.store.credentials.remove({ app: tenant.app, channel: 'fcm' }),
  );
  await untilInbox(tenant, device.token, [push.id]);
  const phone = await connect(device);
  await untilOutcomeCounts(fixture.store, push, { delivered: 1 });
  expect(phone.arrivals.map(({ payload }) => payload)).toEqual([push.payload]);
  expect((await getDeviceInfo(tenant, device.token)).pending_notifications).toEqual([]);
});

test('a former phone of an app that has given up FCM is no recipient', async () => {
  tenant = await fixture.tenant({ fcm: 3_600 });
  const fcmToken = newFcmToken();
  const former = await register({ platform: 'android', fcmToken });
  const device = await register({ platform: 'android', fcmToken });
  await untilOutcomeCounts(fixture.store, await send(tenant, former.token), { sent: 1 });
  const { app } = tenant;
  await fixture.store.apps.updateSettings(app, { fcm: null });
  // The settings that come with a known key are some seconds old.
  const { apiKey } = await createKey(fixture.stack, fixture.store, app);
  const sendNow = async (to: string[]) =>
    (await callApi({ ...tenant.dev, apiKey }, 'POST', '/push', { to, data: { a: 1 } })).json;
  expect(await sendNow([former.token])).toMatchObject({ code: 'NO_RECIPIENTS' });
  expect(await sendNow([former.token, device.token])).toMatchObject({
    info: { devices: 1, failed: [former.token] },
  });
});
