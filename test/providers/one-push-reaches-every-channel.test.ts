import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { TestTenant } from '../support/api/tenants.ts';
import { createMqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import {
  registerAndroid,
  registerIphone,
  registerSimulatedBrowser,
} from '../support/providers/devices.ts';
import { untilEnded } from '../support/providers/outcomes.ts';
import { openProviderScene, type ProviderScene } from '../support/providers/scene.ts';
import { infoOf, send, statusOf, untilPending } from '../support/thread/pushes.ts';
import { until } from '../support/until.ts';

const FALLBACK_SECONDS = 2;

let scene: ProviderScene;
let tenant: TestTenant;
beforeAll(async () => {
  scene = await openProviderScene();
  tenant = await scene.tenant();
  await scene.store.apps.change(tenant.app, { fcmFallbackSeconds: FALLBACK_SECONDS });
});
afterAll(() => scene?.close());

async function subscribe(topic: string, tokens: readonly string[]): Promise<void> {
  for (const token of tokens) {
    await tenant.api('POST', '/topics/subscribe', { token, topics: [topic] });
  }
}

/** What a provider's server got of a push for an address. */
async function gotAt(push: { id: string }, address: string) {
  return (await scene.sandbox.received(push.id)).filter(({ to }) => to === address);
}

test('Electron, Python, Android, iOS and web devices, each over its own channel', async () => {
  const { sandbox, store } = scene;
  const connected = await Promise.all(
    ['electron', 'python'].map((platform) => newMqttDevice(tenant.dev, platform)),
  );
  await Promise.all(connected.map((device) => device.connect()));
  const android = await registerAndroid(tenant.dev);
  const iphone = await registerIphone(tenant.dev);
  const browser = await registerSimulatedBrowser(tenant.dev, sandbox);
  const everybody = [...connected, android, iphone, browser].map(({ token }) => token);
  await subscribe('news', everybody);

  const push = await send(tenant, '/topics/news', { notification: { title: 'News', body: 'Hi' } });
  expect(push.info).toEqual({ devices: 5, failed: [] });
  for (const device of connected) {
    expect((await device.waitFor(1)).map(({ payload }) => payload)).toEqual([push.payload]);
    await device.disconnect();
  }
  for (const { token } of [iphone, browser]) {
    expect(await untilEnded(store, push, token)).toEqual({ outcome: 'sent' });
  }
  await until(async () => (await gotAt(push, android.address)).length === 1);
  const [fcm] = await gotAt(push, android.address);
  expect(fcm?.payload?.data).toEqual({ payload: push.payload, _pushyId: push.id });
  const data = JSON.parse(push.payload);
  expect((await gotAt(push, iphone.address))[0]?.payload).toEqual({
    ...data,
    aps: { alert: { title: 'News', body: 'Hi' } },
    _pushyId: push.id,
  });
  expect((await gotAt(push, browser.address))[0]?.payload).toEqual({ ...data, _pushyId: push.id });
  // Only its own link proves that the Android device has it.
  await untilPending(tenant, push.id, [android.token]);
  expect((await infoOf(tenant, iphone.token)).pending_notifications).toEqual([]);
  expect((await statusOf(tenant, push.id)).payload).toEqual(data);
  expect(await sandbox.counts()).toMatchObject({ doubles: 0 });
});

test('an Android device that acknowledges in time gets nothing over FCM', async () => {
  const [quick, silent] = [await registerAndroid(tenant.dev), await registerAndroid(tenant.dev)];
  const push = await send(tenant, [quick.token, silent.token]);
  const link = await connectAs(quick);
  await link.waitFor(1);
  await until(async () => (await gotAt(push, silent.address)).length === 1);
  expect(await gotAt(push, quick.address)).toEqual([]);
  expect(await untilEnded(scene.store, push, quick.token)).toEqual({ outcome: 'delivered' });
  await link.disconnect();
});

test('a receipt that comes after FCM took the push makes it delivered, and ends the push', async () => {
  const android = await registerAndroid(tenant.dev);
  const push = await send(tenant, android.token);
  await until(async () => (await gotAt(push, android.address)).length === 1);
  const link = await connectAs(android);
  await link.waitFor(1);
  await untilPending(tenant, push.id, []);
  const isFinished = async () => (await scene.store.fates.ofPush(push.id))?.state === 'finished';
  await until(isFinished, { timeoutMs: 15_000 });
  expect((await scene.store.fates.ofPush(push.id))?.outcomes).toEqual({ delivered: 1 });
  await link.disconnect();
});

test('what FCM took and no receipt ever came for ends as sent, what neither took as expired', async () => {
  const android = await registerAndroid(tenant.dev);
  const electron = await newMqttDevice(tenant.dev);
  const push = await send(tenant, [android.token, electron.token], { time_to_live: 5 });
  await until(async () => (await gotAt(push, android.address)).length === 1);
  const isOver = async () => (await scene.store.fates.ofPush(push.id))?.state === 'finished';
  await until(isOver, { timeoutMs: 20_000 });
  const fates = await until(async () => {
    const found = await scene.store.fates.ofPush(push.id);
    return found?.outcomes.sent === 1 && found.outcomes;
  });
  expect(fates).toEqual({ sent: 1, expired: 1 });
  expect(await untilEnded(scene.store, push, android.token)).toEqual({ outcome: 'sent' });
  expect(await untilEnded(scene.store, push, electron.token)).toEqual({ outcome: 'expired' });
});

async function connectAs(credentials: { token: string; auth: string }) {
  const device = createMqttDevice({ url: tenant.dev.mqtt, ...credentials });
  await device.connect();
  return device;
}
