import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { TestTenant } from '../support/api/tenants.ts';
import { runCarillonHere } from '../support/carillon.ts';
import { getDeviceInfo, getPushStatus, type Sent, send } from '../support/end-to-end/pushes.ts';
import { APPLE_BUILD, createDeviceCalls } from '../support/providers/device-calls.ts';
import type { ProviderFixture } from '../support/providers/fixture.ts';
import { untilOutcomeCounts } from '../support/providers/outcomes.ts';
import type { Credentials } from '../support/register-device.ts';
import { useSharedProviders } from '../support/shared-stack.ts';
import { until } from '../support/until.ts';

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

const newText = () => randomBytes(20).toString('hex');
const newTopic = () => `topic-${newText().slice(0, 8)}`;

/** Phones, each with the fields of its address. */
const PHONES = {
  'an Android phone': (address: string) => ({ platform: 'android', fcmToken: address }),
  'an iPhone with an APNs token': (address: string) => ({
    platform: 'ios',
    pushToken: address.padEnd(64, '0'),
    ...APPLE_BUILD,
  }),
  'an iPhone with an FCM token': (address: string) => ({ platform: 'ios', fcmToken: address }),
};
const android = PHONES['an Android phone'];

const calls = createDeviceCalls(() => tenant);
const { post, register, setToken, connect, disconnectAll } = calls;
const subscribe = ({ token }: Credentials, ...topics: string[]) =>
  post('/topics/subscribe', { token, topics });

/** An Android phone that has connected over MQTT, and is offline now. */
async function registerOffline(fields: object = { platform: 'android' }): Promise<Credentials> {
  const device = await register(fields);
  await (await connect(device)).disconnect();
  return device;
}

const untilCounted = (push: Sent, counts: Record<string, number>) =>
  untilOutcomeCounts(fixture.store, push, counts);

const presenceOf = async ({ token }: Credentials) =>
  (await post<{ presence: object[] }>('/devices/presence', { tokens: [token] })).presence[0];

/** Returns the addresses that the providers got a push for. */
const addressesOf = async ({ id }: Sent) =>
  (await fixture.sandbox.received(id)).map(({ to }) => to);

describe.each(Object.entries(PHONES))('%s that registers its address again', (_phone, fieldsOf) => {
  test('gets what is sent to its topics, and to its former token', async () => {
    const address = newText();
    const topic = newTopic();
    const before = await register(fieldsOf(address));
    await subscribe(before, topic);
    const after = await register(fieldsOf(address));
    expect(after.token).not.toBe(before.token);
    const pushes = [await send(tenant, `/topics/${topic}`), await send(tenant, before.token)];
    for (const push of pushes) {
      await untilCounted(push, { sent: 1 });
      expect(await addressesOf(push)).toEqual([expect.stringContaining(address)]);
    }
    expect(await getDeviceInfo(tenant, after.token)).toMatchObject({
      device: { replaces: before.token },
      subscriptions: [topic],
    });
    expect(await getDeviceInfo(tenant, before.token)).toMatchObject({
      device: { replaced_by: after.token },
      subscriptions: [],
      presence: { online: false },
    });
  });
});

test('the command line shows both devices, and an export has the new one alone', async () => {
  tenant = await fixture.tenant({ fcm: 3_600 });
  const { apiKey, api } = tenant.dev;
  const fields = android(newText());
  const [before, after] = [await register(fields), await register(fields)];
  const show = async ({ token }: Credentials) => {
    const env = { CARILLON_API: api, CARILLON_API_KEY: apiKey };
    return (await runCarillonHere(fixture.stack.home, ['device', 'show', token], env)).stdout;
  };
  expect(await show(before)).toContain(`\nReplaced by ${after.token}.\n`);
  expect(await show(after)).toContain(`\nReplaces ${before.token}.\n`);
  const headers = { authorization: `Bearer ${apiKey}` };
  const lines = (await (await fetch(new URL('/export/devices', api), { headers })).text())
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(lines).toEqual([expect.objectContaining({ token: after.token }), { complete: true }]);
});

test('pushes that wait for the phone are sent to the address, and end as sent', async () => {
  const address = newText();
  const before = await registerOffline();
  const { token: other } = await registerOffline();
  const waiting: [Sent, alsoTo: number][] = [
    [await send(tenant, before.token), 0],
    [await send(tenant, before.token, { collapse_key: 'news' }), 0],
    [await send(tenant, [before.token, other]), 1],
  ];
  for (const [push, others] of waiting) await untilCounted(push, { inbox: 1 + others });
  await setToken(before, { fcmToken: address });
  const after = await register(android(address));
  for (const [push, others] of waiting) {
    await untilCounted(push, { sent: 1, ...(others > 0 && { inbox: others }) });
    expect(await addressesOf(push)).toEqual([address]);
  }
  // The rows end right after the outcomes are shown.
  for (const { token } of [before, after])
    await until(
      async () => (await getDeviceInfo(tenant, token)).pending_notifications.length === 0,
      { what: 'the end of the rows' },
    );
});

test('a push to several offline phones, of which one registers its address again, waits for the others alone', async () => {
  const address = newText();
  const before = await registerOffline(android(address));
  const others = [await registerOffline(android(newText())), await registerOffline()];
  const tokens = [before, ...others].map(({ token }) => token);
  const push = await send(tenant, tokens);
  await untilCounted(push, { inbox: 3 });
  await register(android(address));
  await untilCounted(push, { sent: 1, inbox: 2 });
  expect(await addressesOf(push)).toEqual([address]);
});

test('a push that FCM has accepted before waits for nobody any more', async () => {
  const { app } = tenant;
  const address = newText();
  const before = await registerOffline(android(address));
  await fixture.store.apps.updateSettings(app, { fcm: 0 });
  const push = await until(
    async () => {
      // Workers keep the setting for some seconds.
      const sent = await send(tenant, before.token);
      const isSent = async () => (await addressesOf(sent)).length > 0;
      return until(isSent, { timeoutMs: 2_000 }).then(
        () => sent,
        () => false as const,
      );
    },
    { what: 'a fallback at once', timeoutMs: 60_000 },
  );
  await fixture.store.apps.updateSettings(app, { fcm: 3_600 });
  await untilCounted(push, { sent: 1 });
  expect((await getPushStatus(tenant, push.id)).pending_devices).toEqual([before.token]);
  await register(android(address));
  const isFinished = async () =>
    (await getPushStatus(tenant, push.id)).pending_devices.length === 0;
  await until(isFinished, { what: 'no pending device' });
  expect(await addressesOf(push)).toEqual([address]);
  // Workers keep the settings of this app for some seconds more.
  tenant = await fixture.tenant({ fcm: 3_600 });
});

test('a stranger who registers the address gets neither the old pushes nor those to the former token', async () => {
  const address = newText();
  const owner = await registerOffline();
  const old = await send(tenant, owner.token);
  await untilCounted(old, { inbox: 1 });
  await setToken(owner, { fcmToken: address });
  const stranger = await connect(await register(android(address)));
  const later = await send(tenant, owner.token);
  await untilCounted(later, { sent: 1 });
  // The stranger moves on to another address, and the former device does not.
  await setToken(stranger, { fcmToken: newText() });
  const last = await send(tenant, owner.token);
  for (const push of [old, later, last]) {
    await untilCounted(push, { sent: 1 });
    expect(await addressesOf(push)).toEqual([address]);
  }
  const own = await send(tenant, stranger.token);
  await stranger.waitFor(1);
  expect(stranger.arrivals.map(({ payload }) => payload)).toEqual([own.payload]);
});

test('a stranger who registers the address for a second ends no phone with that', async () => {
  const fields = PHONES['an iPhone with an APNs token'](newText());
  const owner = await register(fields);
  const stranger = await register({ ...fields, expires_in: 1 });
  const isGone = async () => (await tenant.api('GET', `/devices/${stranger.token}`)).status !== 200;
  await until(isGone, { what: 'the end of the device of the stranger' });
  // Its credentials are valid again, and so is its address.
  const isBack = async () => (await tenant.api('POST', '/devices/auth', owner)).status === 200;
  await until(isBack, { what: 'the credentials of the owner' });
  expect((await getDeviceInfo(tenant, owner.token)).device).not.toHaveProperty('replaced_by');
  const push = await send(tenant, owner.token);
  await untilCounted(push, { sent: 1 });
  expect(await addressesOf(push)).toEqual([fields.pushToken]);
  const pushToken = newText().padEnd(64, '1');
  await setToken(owner, { ...fields, pushToken });
  const next = await send(tenant, owner.token);
  await untilCounted(next, { sent: 1 });
  expect(await addressesOf(next)).toEqual([pushToken]);
});

const untilSubscribed = ({ token }: Credentials, ...topics: string[]) => {
  const isSubscribed = async () =>
    (await getDeviceInfo(tenant, token)).subscriptions.join() === topics.join();
  return until(isSubscribed, { what: `the topics ${topics.join()} of ${token}` });
};

test.each<[proof: string, of: (owner: Credentials, deviceId: string) => object]>([
  ['its credentials', ({ token, auth }) => ({ token, auth })],
  ['its deviceId', (_owner, deviceId) => ({ deviceId })],
])(
  'a phone that proves to be a former device by %s is that again, with its topics',
  async (...row) => {
    const [, proofOf] = row;
    const [address, topic, deviceId] = [newText(), newTopic(), newText()];
    const owner = await register({ ...android(address), deviceId });
    await subscribe(owner, topic);
    const stranger = await register(android(address));
    await untilSubscribed(stranger, topic);
    const back = await register({ ...android(address), ...proofOf(owner, deviceId) });
    expect(back).toEqual(owner);
    await untilSubscribed(owner, topic);
    await untilSubscribed(stranger);
    const phone = await connect(owner);
    const push = await send(tenant, `/topics/${topic}`);
    expect((await phone.waitFor(1)).map(({ payload }) => payload)).toEqual([push.payload]);
  },
);

test('the topics of a former device are changed with its token', async () => {
  const [address, kept, added] = [newText(), newTopic(), newTopic()];
  const before = await register(android(address));
  await subscribe(before, kept);
  const after = await register(android(address));
  await untilSubscribed(after, kept);
  await subscribe(before, added);
  await untilSubscribed(after, ...[kept, added].sort());
  await untilSubscribed(before);
  const push = await send(tenant, `/topics/${added}`);
  await untilCounted(push, { sent: 1 });
  expect(await addressesOf(push)).toEqual([address]);
  await post('/topics/unsubscribe', { token: before.token, topics: [kept] });
  await untilSubscribed(after, added);
});

test('an address that is registered for another platform takes no topics with it', async () => {
  const [address, topic] = [newText(), newTopic()];
  const owner = await register(android(address));
  await subscribe(owner, topic);
  const other = await register(PHONES['an iPhone with an FCM token'](address));
  const push = await send(tenant, `/topics/${topic}`);
  await untilCounted(push, { sent: 1 });
  expect(await addressesOf(push)).toEqual([address]);
  await untilSubscribed(owner, topic);
  await untilSubscribed(other);
});

test('the credentials of a former device are rejected, and its connection is closed', async () => {
  const fields = android(newText());
  const owner = await register(fields);
  const phone = await connect(owner);
  await register(fields);
  expect((await tenant.api('POST', '/devices/auth', owner)).json.code).toBe('INVALID_DEVICE_AUTH');
  const { json } = await tenant.api('POST', '/devices/token', { ...owner, fcmToken: newText() });
  expect(json.code).toBe('INVALID_DEVICE_AUTH');
  await until(() => !phone.connected, { what: 'the end of the connection', timeoutMs: 20_000 });
  await expect(connect(owner)).rejects.toMatchObject({ code: 5 });
});

test.each<[proof: string, fieldsOf: (device: Credentials, deviceId: string) => object]>([
  ['its credentials', ({ token, auth }) => ({ token, auth })],
  ['its own id', (_device, deviceId) => ({ deviceId })],
  [
    'its own id, with credentials that are wrong',
    ({ token }, deviceId) => {
      return { token, auth: newText(), deviceId };
    },
  ],
])(
  'with %s the phone is the same device: it has its topics, and gets its inbox',
  async (_proof, fieldsOf) => {
    const deviceId = newText();
    const topic = newTopic();
    const device = await registerOffline({ ...android(newText()), deviceId });
    await subscribe(device, topic);
    const waiting = [await send(tenant, device.token), await send(tenant, `/topics/${topic}`)];
    for (const push of waiting) await untilCounted(push, { inbox: 1 });
    const address = newText();
    const holder = await register(android(address));
    expect(await register({ ...android(address), ...fieldsOf(device, deviceId) })).toEqual(device);
    expect(await getDeviceInfo(tenant, holder.token)).toMatchObject({
      device: { replaced_by: device.token },
    });
    const phone = await connect(device);
    await phone.waitFor(2);
    expect(phone.arrivals.map(({ payload }) => payload)).toEqual(
      waiting.map(({ payload }) => payload),
    );
    for (const push of waiting) await untilCounted(push, { delivered: 1 });
  },
);

test('with a wrong proof the phone is a new device', async () => {
  const deviceId = newText();
  const device = await register({ ...android(newText()), deviceId });
  const proofs = [
    { token: device.token, auth: newText() },
    { token: device.token },
    { token: newText(), auth: device.auth },
    { deviceId: newText() },
  ];
  for (const proof of proofs)
    expect((await register({ ...android(newText()), ...proof })).token).not.toBe(device.token);
  // Valid ones, for a device of another platform or of another app.
  const { app: appId } = await fixture.tenant();
  for (const fields of [{ platform: 'electron' }, { ...android(newText()), appId }]) {
    const other = await register({ ...fields, ...device, deviceId });
    expect(other.token).not.toBe(device.token);
  }
});

test.each<[phone: string, platform: string, newAddress: () => object]>([
  ['an Android phone', 'android', () => ({ fcmToken: newText() })],
  ['an iPhone', 'ios', () => ({ fcmToken: newText() })],
  [
    'an iPhone with an APNs token',
    'ios',
    () => ({ pushToken: newText().padEnd(64, '0'), ...APPLE_BUILD }),
  ],
])(
  '%s changes its token: the new one gets its pushes, and it is not uninstalled any more',
  async (_phone, platform, newAddress) => {
    const old = newText();
    const device = await register({ platform, fcmToken: old });
    await fixture.sandbox.scriptPermanently('fcm', old, { as: 'UNREGISTERED' });
    await untilCounted(await send(tenant, device.token), { gone: 1 });
    expect(await presenceOf(device)).toMatchObject({ uninstalled: true });
    const address = newAddress();
    expect(await setToken(device, address)).toEqual({ success: true });
    expect(await presenceOf(device)).not.toHaveProperty('uninstalled');
    const push = await send(tenant, device.token);
    await untilCounted(push, { sent: 1 });
    expect(Object.values(address)).toContain((await addressesOf(push))[0]);
    await setToken(device, { pushToken: null, fcmToken: null });
    const last = await send(tenant, device.token);
    await untilCounted(last, platform === 'ios' ? { failed: 1 } : { inbox: 1 });
  },
);

test('a phone that its provider has reported as gone is not, once it connects', async () => {
  const old = newText();
  const device = await register(android(old));
  await fixture.sandbox.scriptPermanently('fcm', old, { as: 'UNREGISTERED' });
  await untilCounted(await send(tenant, device.token), { gone: 1 });
  expect(await presenceOf(device)).toMatchObject({ uninstalled: true });
  const phone = await connect(device);
  expect(await presenceOf(device)).not.toHaveProperty('uninstalled');
  const push = await send(tenant, device.token);
  await untilCounted(push, { delivered: 1 });
  expect(phone.arrivals.map(({ payload }) => payload)).toEqual([push.payload]);
});
