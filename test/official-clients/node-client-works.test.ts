import { afterAll, beforeAll, expect, test } from '@jest/globals';
import Pushy from 'pushy';
import { createFleet, payloadsOf } from '../support/guarantees/devices.ts';
import type { MqttDevice } from '../support/mqtt-device.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';
import { until } from '../support/until.ts';

const YESTERDAY_SECONDS = 86_400;

/** The parts of the client that its own typings leave out. */
type Client = Pushy & { setEnterpriseConfig(endpoint: string): void };

let stack: SharedStack;
let client: Client;
let online: MqttDevice;
let offline: MqttDevice;
const fleet = createFleet(() => stack.dev);
beforeAll(async () => {
  stack = await useSharedStack();
  client = new Pushy(stack.dev.apiKey) as Client;
  client.setEnterpriseConfig(stack.dev.api);
  [online, offline] = await Promise.all([fleet.online(), fleet.offline('android')]);
});
afterAll(async () => {
  await fleet.disconnectAll();
});

const nowSeconds = () => Math.floor(Date.now() / 1_000);

test('a push to a token arrives', async () => {
  const { success, id, info } = await client.sendPushNotification({ a: 1 }, online.token);
  expect([success, info]).toEqual([true, { devices: 1, failed: [] }]);
  await until(() => payloadsOf(online).includes('{"a":1}'));
  expect((await client.getNotificationStatus(id)).payload).toEqual({ a: 1 });
});

test('a push to tokens names those that are unknown, and waits for those offline', async () => {
  const to = [online.token, offline.token, 'unknown'];
  const options = {
    time_to_live: 600,
    collapse_key: 'one',
    notification: { body: 'Hi', badge: 1 },
  };
  const { id, info } = await client.sendPushNotification(
    { b: 2 },
    to,
    options as Parameters<Client['sendPushNotification']>[2],
  );
  expect(info).toEqual({ devices: 2, failed: ['unknown'] });
  const status = await until(async () => {
    const seen = await client.getNotificationStatus(id);
    return seen.pending_devices.length === 1 && seen;
  });
  expect(status.pending_devices).toEqual([offline.token]);
  expect(status.expiration).toBe(status.date + 600);
  await until(() => payloadsOf(online).includes('{"b":2}'));
});

test('a topic: subscribe, send, list, unsubscribe', async () => {
  await client.subscribe(['news', 'weather'], online.token);
  const { info } = await client.sendPushNotification({ c: 3 }, '/topics/news');
  expect(info.devices).toBe(1);
  await until(() => payloadsOf(online).includes('{"c":3}'));
  const { topics } = (await client.getTopics()) as unknown as { topics: object[] };
  expect(topics).toContainEqual({ name: 'news', subscribers: 1 });
  const { subscribers } = await client.getSubscribers('news');
  expect(subscribers).toEqual([online.token]);
  await client.unsubscribe('news', online.token);
  expect((await client.getDeviceInfo(online.token)).subscriptions).toEqual(['weather']);
  await expect(client.sendPushNotification({ c: 4 }, '/topics/news')).rejects.toMatchObject({
    code: 'NO_RECIPIENTS',
  });
});

test('devices: info and presence', async () => {
  await client.sendPushNotification({ d: 4 }, offline.token);
  const info = await until(async () => {
    const seen = await client.getDeviceInfo(offline.token);
    return seen.pending_notifications.some(({ payload }) => 'd' in (payload as object)) && seen;
  });
  expect(info.device.platform).toBe('android');
  expect(info.presence.online).toBe(false);
  expect(info.device.date).toBeGreaterThan(nowSeconds() - YESTERDAY_SECONDS);
  const presence = await client.getDevicePresence([online.token, offline.token, 'unknown']);
  expect(presence).toMatchObject([
    { id: online.token, online: true },
    { id: offline.token, online: false },
  ]);
});

test('a scheduled push has that status until it is deleted', async () => {
  const schedule = nowSeconds() + 3_600;
  const { id } = await client.sendPushNotification({ e: 5 }, online.token, { schedule });
  await expect(client.getNotificationStatus(id)).rejects.toMatchObject({ code: 'PUSH_SCHEDULED' });
  await client.deletePushNotification(id);
  await expect(client.deletePushNotification(id)).rejects.toMatchObject({
    code: 'INVALID_PUSH_ID',
  });
});

test('a wrong key gets its own error', async () => {
  const otherTenant = new Pushy('f'.repeat(64)) as Client;
  otherTenant.setEnterpriseConfig(stack.dev.api);
  await expect(otherTenant.getTopics()).rejects.toMatchObject({ code: 'INVALID_API_KEY' });
});
