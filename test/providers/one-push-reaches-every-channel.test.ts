import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { TestTenant } from '../support/api/tenants.ts';
import { getDeviceInfo, getPushStatus, send, untilPending } from '../support/end-to-end/pushes.ts';
import { createMqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import {
  registerAndroid,
  registerAndroidByFcm,
  registerIphone,
  registerSimulatedBrowser,
} from '../support/providers/devices.ts';
import type { ProviderFixture } from '../support/providers/fixture.ts';
import { untilFinal } from '../support/providers/outcomes.ts';
import { useSharedProviders } from '../support/shared-stack.ts';
import { until } from '../support/until.ts';

const FALLBACK_SECONDS = 2;
/** On any machine a device connects and acknowledges before. */
const LONG_FALLBACK_SECONDS = 10;
/** On any machine the fallback's request comes before. */
const EXPIRES_AFTER_SECONDS = 15;
const COLLAPSE_KEYS = 10;
/** From the first of the scheduled pushes; on any machine all are accepted by then. */
const DUE_AFTER_SECONDS = 10;

let fixture: ProviderFixture;
let tenant: TestTenant;
/** Waits of seconds, in which the first tests run. */
let begun: Record<'inTime' | 'lateReceipt' | 'noReceipt', Promise<void>>;
beforeAll(async () => {
  fixture = await useSharedProviders();
  tenant = await fixture.tenant({ fcm: FALLBACK_SECONDS });
  begun = {
    inTime: acknowledgeBeforeFcm(),
    lateReceipt: acknowledgeAfterFcm(),
    noReceipt: expireAfterFcm(),
  };
  // Its own test reports its failure.
  for (const checked of Object.values(begun)) checked.catch(() => undefined);
});
afterAll(() => fixture?.close());

async function subscribe(topic: string, tokens: readonly string[]): Promise<void> {
  for (const token of tokens) {
    await tenant.api('POST', '/topics/subscribe', { token, topics: [topic] });
  }
}

/** Returns the requests of a push that a provider's server received for an address. */
async function receivedAt(push: { id: string }, address: string) {
  return (await fixture.sandbox.received(push.id)).filter(({ to }) => to === address);
}

test('Electron, Python, Android, iOS and web devices, each in its own way', async () => {
  const { sandbox, store } = fixture;
  const connected = await Promise.all(
    ['electron', 'python'].map((platform) => newMqttDevice(tenant.dev, platform)),
  );
  await Promise.all(connected.map((device) => device.connect()));
  const android = await registerAndroid(tenant.dev);
  const phone = await registerAndroidByFcm(tenant.dev);
  const iphone = await registerIphone(tenant.dev);
  const browser = await registerSimulatedBrowser(tenant.dev, sandbox);
  const tokens = [...connected, android, phone, iphone, browser].map(({ token }) => token);
  await subscribe('news', tokens);

  const push = await send(tenant, '/topics/news', { notification: { title: 'News', body: 'Hi' } });
  expect(push.info).toEqual({ devices: 6, failed: [] });
  for (const device of connected) {
    expect((await device.waitFor(1)).map(({ payload }) => payload)).toEqual([push.payload]);
    await device.disconnect();
  }
  for (const { token } of [phone, iphone, browser]) {
    expect(await untilFinal(store, push, token)).toEqual({ outcome: 'sent' });
  }
  await until(async () => (await receivedAt(push, android.address)).length === 1);
  for (const { address } of [phone, android]) {
    const [fcm] = await receivedAt(push, address);
    expect(fcm?.payload?.data).toEqual({ payload: push.payload, _pushyId: push.id });
  }
  const data = JSON.parse(push.payload);
  expect((await receivedAt(push, iphone.address))[0]?.payload).toEqual({
    ...data,
    aps: { alert: { title: 'News', body: 'Hi' } },
    _pushyId: push.id,
  });
  expect((await receivedAt(push, browser.address))[0]?.payload).toEqual({
    ...data,
    _pushyId: push.id,
  });
  // Only its MQTT connection proves that the Android device has it.
  await untilPending(tenant, push.id, [android.token]);
  expect((await getDeviceInfo(tenant, iphone.token)).pending_notifications).toEqual([]);
  expect((await getPushStatus(tenant, push.id)).payload).toEqual(data);
  expect(await sandbox.received(push.id)).toHaveLength(4);
});

test('a push that only wakes the app is sent as one over each channel, and our fields win', async () => {
  const { sandbox, store } = fixture;
  const iphone = await registerIphone(tenant.dev);
  const browser = await registerSimulatedBrowser(tenant.dev, sandbox);
  const android = await registerAndroidByFcm(tenant.dev);
  const tokens = [iphone, browser, android].map(({ token }) => token);
  const data = '{"aps":{"alert":"theirs"},"n":1.0,"\\u005fpushyId":"theirs","in":{"aps":1}}';
  const fields = '"content_available":true,"notification":{"title":"","thread_id":"t"}';
  const body = `{"to":${JSON.stringify(tokens)},"data":${data},${fields}}`;
  const { json: push } = await tenant.api<{ id: string; info: object }>('POST', '/push', body);
  expect(push.info).toEqual({
    devices: 3,
    failed: [],
    warnings: [
      'data.aps: replaced by ours for iOS devices; use apns.payload',
      'data._pushyId: replaced by ours for iOS devices and browsers',
    ],
  });
  for (const token of tokens) {
    expect(await untilFinal(store, push, token)).toEqual({ outcome: 'sent' });
  }
  const [apns] = await receivedAt(push, iphone.address);
  expect(apns?.headers).toMatchObject({ 'apns-push-type': 'background', 'apns-priority': '5' });
  expect((await receivedAt(push, browser.address))[0]?.headers).toMatchObject({
    urgency: 'normal',
  });
  const [fcm] = await receivedAt(push, android.address);
  expect(fcm?.payload).toMatchObject({
    android: { priority: 'normal' },
    data: { payload: data.replace('\\u005f', '_') },
  });
  const log = await (await fetch(`${fixture.stack.dev.sandbox}/received?push=${push.id}`)).text();
  const ours = `"_pushyId":"${push.id}"`;
  const aps = '"aps":{"thread-id":"t","content-available":1}';
  expect(log).toContain(`{"n":1.0,"in":{"aps":1},${aps},${ours}}`);
  expect(log).toContain(`{"aps":{"alert":"theirs"},"n":1.0,"in":{"aps":1},${ours}}`);
});

test('title and message of data are shown over FCM, on Android and iOS, if the app asks for it', async () => {
  const { sandbox, store } = fixture;
  const asking = await fixture.tenant({ fcm: 'first', fcmNotification: true });
  const [android, iphone] = [`android-${randomUUID()}`, `iphone-${randomUUID()}`];
  const imported = await store.imports.importDevices(asking.app, [
    { platform: 'android', provider: { channel: 'fcm', address: android } },
    { platform: 'ios', provider: { channel: 'fcm', address: iphone, isApple: true } },
  ]);
  const tokens = imported.flatMap((result) => ('token' in result ? [result.token] : []));
  const data = { title: 'T', message: 'M' };
  const push = await send(asking, tokens, { data });
  for (const token of tokens)
    expect(await untilFinal(store, push, token)).toEqual({ outcome: 'sent' });
  const received = await sandbox.received(push.id);
  const payloadAt = (address: string) => received.find(({ to }) => to === address)?.payload;
  expect(payloadAt(android)).toMatchObject({
    data: { payload: JSON.stringify(data), _pushyId: push.id },
    notification: { title: 'T', body: 'M' },
  });
  expect(payloadAt(iphone)).toMatchObject({
    apns: { payload: { ...data, aps: { alert: { title: 'T', body: 'M' } }, _pushyId: push.id } },
  });
  expect(received).toHaveLength(2);
});

test('of three pushes of a collapse key for one second, the last accepted is the last on every channel', async () => {
  const { sandbox } = fixture;
  const [online, offline] = [await newMqttDevice(tenant.dev), await newMqttDevice(tenant.dev)];
  await online.connect();
  const atProviders = [
    await registerAndroid(tenant.dev),
    await registerIphone(tenant.dev),
    await registerSimulatedBrowser(tenant.dev, sandbox),
  ];
  const tokens = [online, offline, ...atProviders].map(({ token }) => token);
  const schedule = Math.floor(Date.now() / 1_000) + DUE_AFTER_SECONDS;
  const sendThree = async (_: unknown, key: number) => {
    const fields = { collapse_key: `key ${key}`, schedule };
    return [
      await send(tenant, tokens, fields),
      await send(tenant, tokens, fields),
      await send(tenant, tokens, fields),
    ];
  };
  const ofKeys = await Promise.all(Array.from({ length: COLLAPSE_KEYS }, sendThree));
  expect(Date.now()).toBeLessThan(schedule * 1_000);
  const older = ofKeys.flatMap((pushes) => pushes.slice(0, -1));
  const newest = ofKeys.map((pushes) => pushes.at(-1)?.payload);

  for (const push of older) await untilNothingPending(push);
  await offline.connect();
  for (const device of [online, offline]) {
    const isLast = (payload: string | undefined) =>
      device.arrivals.some((one) => one.payload === payload);
    await until(() => newest.every(isLast), { what: 'the newest pushes over MQTT' });
    for (const pushes of ofKeys) {
      const payloads = pushes.map(({ payload }) => payload);
      const arrived = device.arrivals.filter(({ payload }) => payloads.includes(payload));
      expect(arrived.at(-1)?.payload).toBe(payloads.at(-1));
    }
    await device.disconnect();
  }
  for (const { address } of atProviders) {
    for (const pushes of ofKeys) {
      const ids = pushes.map(({ id }) => id);
      const requests = async () => {
        const received = await Promise.all(pushes.map((push) => receivedAt(push, address)));
        return received.flat().sort((a, b) => a.n - b.n);
      };
      await until(async () => (await requests()).some(({ push }) => push === ids.at(-1)));
      expect((await requests()).at(-1)?.push).toBe(ids.at(-1));
    }
  }
});

test('an Android device that acknowledges in time gets nothing over FCM', () => begun.inTime);

test('a receipt after FCM has accepted the push makes it delivered, and ends the push', () =>
  begun.lateReceipt);

test('without a receipt a push ends as sent if FCM accepted it, and as expired otherwise', () =>
  begun.noReceipt);

/** Waits until a push is pending for no device: it is in no batch and no inbox any more. */
function untilNothingPending({ id }: { id: string }): Promise<true> {
  return until(
    async () => {
      const { outcomes } = (await fixture.store.deliveryStatus.statusOfPush(id)) ?? {};
      return outcomes !== undefined && (outcomes.pending ?? 0) + (outcomes.inbox ?? 0) === 0;
    },
    { what: `no recipient of ${id} is pending` },
  );
}

/** Waits until a push has ended and all its recipients are counted. Returns the counts. */
function untilFinished({ id }: { id: string }): Promise<Record<string, number>> {
  return until(
    async () => {
      const {
        state,
        outcomes = {},
        devices,
      } = (await fixture.store.deliveryStatus.statusOfPush(id)) ?? {};
      const { pending: _pending, inbox: _inbox, ...ended } = outcomes;
      const count = Object.values(ended).reduce((sum, n) => sum + n, 0);
      return state === 'finished' && count === devices && ended;
    },
    { timeoutMs: 60_000, what: `the end of ${id}` },
  );
}

async function acknowledgeBeforeFcm(): Promise<void> {
  const { dev, api } = await fixture.tenant({ fcm: LONG_FALLBACK_SECONDS });
  const [quick, silent] = [await registerAndroid(dev), await registerAndroid(dev)];
  const push = await send({ api }, [quick.token, silent.token]);
  const connection = await connectAs(quick);
  await connection.waitFor(1);
  await until(async () => (await receivedAt(push, silent.address)).length === 1);
  expect(await receivedAt(push, quick.address)).toEqual([]);
  expect(await untilFinal(fixture.store, push, quick.token)).toEqual({ outcome: 'delivered' });
  await connection.disconnect();
}

async function acknowledgeAfterFcm(): Promise<void> {
  const android = await registerAndroid(tenant.dev);
  const push = await send(tenant, android.token);
  await until(async () => (await receivedAt(push, android.address)).length === 1);
  const connection = await connectAs(android);
  await connection.waitFor(1);
  await untilPending(tenant, push.id, []);
  expect(await untilFinished(push)).toEqual({ delivered: 1 });
  await connection.disconnect();
}

async function expireAfterFcm(): Promise<void> {
  const android = await registerAndroid(tenant.dev);
  const electron = await newMqttDevice(tenant.dev);
  const push = await send(tenant, [android.token, electron.token], {
    time_to_live: EXPIRES_AFTER_SECONDS,
  });
  await until(async () => (await receivedAt(push, android.address)).length === 1);
  expect(await untilFinished(push)).toEqual({ sent: 1, expired: 1 });
  expect(await untilFinal(fixture.store, push, android.token)).toEqual({ outcome: 'sent' });
  expect(await untilFinal(fixture.store, push, electron.token)).toEqual({ outcome: 'expired' });
}

async function connectAs(credentials: { token: string; auth: string }) {
  const device = createMqttDevice({ url: tenant.dev.mqtt, ...credentials });
  await device.connect();
  return device;
}
