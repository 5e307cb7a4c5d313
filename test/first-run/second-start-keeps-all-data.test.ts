import { readdirSync } from 'node:fs';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import {
  getDeviceInfo,
  type Sent,
  send,
  untilInbox,
  untilPending,
} from '../support/end-to-end/pushes.ts';
import {
  createTestHome,
  hasFile,
  readHomeFile,
  type TestHome,
} from '../support/first-run/test-home.ts';
import { createMqttDevice, type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { callApi } from '../support/stack/call-api.ts';
import type { Dev } from '../support/stack/dev-file.ts';

const TOPIC = 'kept';

let testHome: TestHome;
let before: Dev;
let after: Dev;
/** Of three devices: never connected; connected without receipts; connected with all receipts. */
let offline: { device: MqttDevice; push: Sent };
let unackedDelivery: { device: MqttDevice; push: Sent };
let ackedDelivery: { device: MqttDevice; push: Sent };

beforeAll(async () => {
  testHome = await createTestHome();
  const start = testHome.start();
  before = await start.ready();
  [offline, unackedDelivery, ackedDelivery] = [
    await pushToNewDevice(),
    await pushToNewDevice(),
    await pushToNewDevice(),
  ];
  unackedDelivery.device.holdReceipts();
  await Promise.all([unackedDelivery.device.connect(), ackedDelivery.device.connect()]);
  await Promise.all([unackedDelivery.device.waitFor(1), ackedDelivery.device.waitFor(1)]);
  await untilPending(apiOf(before), ackedDelivery.push.id, []);
  await subscribe(offline.device);
  start.signal('SIGINT');
  await start.exit();
  after = await testHome.start().ready();
});
afterAll(async () => {
  await Promise.all(
    [unackedDelivery, offline, ackedDelivery].map((one) => one?.device.disconnect()),
  );
  await testHome?.remove();
});

test('the app, the key and the addresses are the same', () => {
  const { processes: _old, ...said } = before;
  expect(after).toMatchObject(said);
  expect(hasFile(testHome, 'logs/api-0.log.1')).toBe(true);
});

test('the compile cache of the first start is used by the second', () => {
  const api = after.processes.find(({ service }) => service === 'api');
  const environment = readHomeFile({ home: `/proc/${api?.pid}` }, 'environ').split('\0');
  const folder = environment.find((one) => one.startsWith('NODE_COMPILE_CACHE='))?.split('=')[1];
  expect(readdirSync(folder ?? '', { recursive: true }).length).toBeGreaterThan(100);
});

test('devices and subscriptions are there', async () => {
  const info = await getDeviceInfo(apiOf(after), offline.device.token);
  expect(info).toMatchObject({ device: { platform: 'electron' }, subscriptions: [TOPIC] });
  const { json } = await callApi(after, 'GET', `/topics/${TOPIC}`);
  expect(json.subscribers).toEqual([offline.device.token]);
});

test('a push that waited for its device arrives', async () => {
  await untilInbox(apiOf(after), offline.device.token, [offline.push.id]);
  await offline.device.connect();
  const [arrival] = await offline.device.waitFor(1);
  expect(arrival?.payload).toBe(offline.push.payload);
});

test('a push that was received and not acknowledged arrives again', async () => {
  unackedDelivery.device.releaseReceipts();
  await unackedDelivery.device.connect();
  const arrivals = await unackedDelivery.device.waitFor(2);
  expect(arrivals.map(({ payload }) => payload)).toEqual(
    Array(2).fill(unackedDelivery.push.payload),
  );
  await untilPending(apiOf(after), unackedDelivery.push.id, []);
});

test('a push that was acknowledged does not', async () => {
  await ackedDelivery.device.connect();
  const next = await send(apiOf(after), ackedDelivery.device.token);
  const arrivals = await ackedDelivery.device.waitFor(2);
  expect(arrivals.map(({ payload }) => payload)).toEqual([
    ackedDelivery.push.payload,
    next.payload,
  ]);
});

test('a new device can be registered, and gets a push', async () => {
  const device = createMqttDevice({ ...(await newMqttDevice(after)), url: after.mqtt });
  await device.connect();
  const push = await send(apiOf(after), device.token);
  expect((await device.waitFor(1))[0]?.payload).toBe(push.payload);
  await device.disconnect();
});

async function pushToNewDevice(): Promise<{ device: MqttDevice; push: Sent }> {
  const device = await newMqttDevice(before);
  return { device, push: await send(apiOf(before), device.token) };
}

async function subscribe({ token }: MqttDevice): Promise<void> {
  const body = { token, topics: [TOPIC] };
  expect((await callApi(before, 'POST', '/topics/subscribe', body)).status).toBe(200);
}

function apiOf(dev: Dev) {
  return {
    api: <T>(method: string, path: string, body?: unknown) => callApi<T>(dev, method, path, body),
  };
}
