import { cpSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type Sent, send, untilInbox, untilPending } from '../support/end-to-end/pushes.ts';
import { createTestHome, type TestHome } from '../support/first-run/test-home.ts';
import { type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { callApi } from '../support/stack/call-api.ts';
import type { Dev } from '../support/stack/dev-file.ts';

/* Follows docs/run/backup-and-restore.md, with a copy of a stopped mongod's data folder as the backup. */

let testHome: TestHome;
let dev: Dev;
let stop: () => Promise<void>;
/** Registered before the backup, with a push that waits at the time of the backup. */
let device: MqttDevice;
let pending: Sent;
/** Of the time after the backup. */
let lateDevice: MqttDevice;
let latePush: Sent;

async function start(): Promise<void> {
  const running = testHome.start();
  dev = await running.ready();
  stop = async () => {
    running.signal('SIGINT');
    await running.exit();
  };
}

const api = {
  api: <T>(method: string, path: string, body?: unknown) => callApi<T>(dev, method, path, body),
};

beforeAll(async () => {
  testHome = await createTestHome();
  const [data, backup] = ['mongodb', 'backup'].map((name) => join(testHome.home, name)) as [
    string,
    string,
  ];
  await start();
  device = await newMqttDevice(dev);
  pending = await send(api, device.token);
  await untilInbox(api, device.token, [pending.id]);
  await stop();
  cpSync(data, backup, { recursive: true });

  await start();
  await device.connect();
  await device.waitFor(1);
  await untilPending(api, pending.id, []);
  await device.disconnect();
  lateDevice = await newMqttDevice(dev);
  latePush = await send(api, device.token);
  await untilInbox(api, device.token, [latePush.id]);
  await stop();

  rmSync(data, { recursive: true });
  cpSync(backup, data, { recursive: true });
  const redis = join(testHome.home, 'redis');
  rmSync(redis, { recursive: true });
  mkdirSync(redis);
  await start();
}, 240_000);
afterAll(async () => {
  await device?.disconnect();
  await testHome?.remove();
});

test('data from after the backup is unknown', async () => {
  const { json } = await api.api<{ code: string }>('GET', `/pushes/${latePush.id}`);
  expect(json.code).toBe('INVALID_PUSH_ID');
  await expect(lateDevice.connect()).rejects.toThrow();
});

test('a device of the backup connects and gets the push that was pending then, again', async () => {
  await untilInbox(api, device.token, [pending.id]);
  await device.connect();
  const arrivals = await device.waitFor(2);
  expect(arrivals.map(({ payload }) => payload)).toEqual([pending.payload, pending.payload]);
});

test('new pushes arrive, and none stays open', async () => {
  const next = await send(api, device.token);
  expect((await device.waitFor(3))[2]?.payload).toBe(next.payload);
  await untilPending(api, pending.id, []);
  await untilPending(api, next.id, []);
  await untilInbox(api, device.token, []);
});
