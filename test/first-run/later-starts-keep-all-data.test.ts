import { randomBytes } from 'node:crypto';
import { cpSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
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
  type NpmStart,
  readHomeFile,
  type TestHome,
} from '../support/first-run/test-home.ts';
import { type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { callApi } from '../support/stack/call-api.ts';
import type { Dev } from '../support/stack/dev-file.ts';

const TOPIC = 'kept';

interface Recipient {
  device: MqttDevice;
  push: Sent;
}

let testHome: TestHome;
let running: NpmStart;
/** The stack of the first start, and the one that runs. */
let first: Dev;
let dev: Dev;
/** Never connected; connected without receipts; connected with all receipts. */
let offline: Recipient;
let unacked: Recipient;
let acked: Recipient;

const api = {
  api: <T>(method: string, path: string, body?: unknown) => callApi<T>(dev, method, path, body),
};

async function start(): Promise<void> {
  running = testHome.start();
  dev = await running.ready();
}

async function stop(): Promise<void> {
  running.signal('SIGINT');
  await running.exit();
}

const payloadsOf = ({ arrivals }: MqttDevice) => arrivals.map(({ payload }) => payload);

async function pushToNewDevice(): Promise<Recipient> {
  const device = await newMqttDevice(dev);
  return { device, push: await send(api, device.token) };
}

beforeAll(async () => {
  testHome = await createTestHome();
  await start();
  first = dev;
  [offline, unacked, acked] = [
    await pushToNewDevice(),
    await pushToNewDevice(),
    await pushToNewDevice(),
  ];
  unacked.device.holdReceipts();
  for (const { device } of [unacked, acked]) await device.connect();
  for (const { device } of [unacked, acked]) await device.waitFor(1);
  await untilPending(api, acked.push.id, []);
  await untilInbox(api, offline.device.token, [offline.push.id]);
  await api.api('POST', '/topics/subscribe', { token: offline.device.token, topics: [TOPIC] });
  await stop();
});
afterAll(async () => {
  await Promise.all([offline, unacked, acked].map((one) => one?.device.disconnect()));
  await testHome?.remove();
});

describe('a second start, with a new device key before the old one', () => {
  beforeAll(async () => {
    cpSync(join(testHome.home, 'mongodb'), `${testHome.home}-backup`, { recursive: true });
    const secrets = JSON.parse(readHomeFile(testHome, 'secrets.json'));
    const deviceAuthKeys = `2:${randomBytes(32).toString('hex')},${secrets.deviceAuthKeys}`;
    const text = JSON.stringify({ ...secrets, deviceAuthKeys });
    writeFileSync(join(testHome.home, 'secrets.json'), text);
    await start();
  });

  test('has the same app, key and addresses', () => {
    const { processes: _old, ...said } = first;
    expect(dev).toMatchObject(said);
    expect(hasFile(testHome, 'logs/api-0.log.1')).toBe(true);
  });

  test('uses the compile cache of the first', () => {
    const found = dev.processes.find(({ service }) => service === 'api');
    const environment = readHomeFile({ home: `/proc/${found?.pid}` }, 'environ').split('\0');
    const folder = environment.find((one) => one.startsWith('NODE_COMPILE_CACHE='))?.split('=')[1];
    expect(readdirSync(folder ?? '', { recursive: true }).length).toBeGreaterThan(100);
  });

  test('has the devices and subscriptions', async () => {
    const info = await getDeviceInfo(api, offline.device.token);
    expect(info).toMatchObject({ device: { platform: 'electron' }, subscriptions: [TOPIC] });
    const { json } = await api.api<{ subscribers: string[] }>('GET', `/topics/${TOPIC}`);
    expect(json.subscribers).toEqual([offline.device.token]);
  });

  test('delivers a push that waited for its device', async () => {
    const { device, push } = offline;
    await untilInbox(api, device.token, [push.id]);
    await device.connect();
    await device.waitFor(1);
    expect(payloadsOf(device)).toEqual([push.payload]);
    await untilPending(api, push.id, []);
    await device.disconnect();
  });

  test('delivers a push again that was received and not acknowledged', async () => {
    const { device, push } = unacked;
    device.releaseReceipts();
    await device.connect();
    await device.waitFor(2);
    expect(payloadsOf(device)).toEqual([push.payload, push.payload]);
    await untilPending(api, push.id, []);
  });

  test('does not deliver one again that was acknowledged', async () => {
    const { device, push } = acked;
    await device.connect();
    const next = await send(api, device.token);
    await device.waitFor(2);
    expect(payloadsOf(device)).toEqual([push.payload, next.payload]);
  });

  test('registers a new device, with the new key, which gets a push', async () => {
    const device = await newMqttDevice(dev);
    await device.connect();
    const push = await send(api, device.token);
    expect((await device.waitFor(1))[0]?.payload).toBe(push.payload);
    await device.disconnect();
    // A credential begins with the id of its key.
    const ids = [offline.device.auth, device.auth].map((auth) => auth.slice(0, 2));
    expect(ids).toEqual(['01', '02']);
  });
});

/* Follows docs/run/backup-and-restore.md, with a copy of a stopped mongod's data folder as the backup. */
describe('an older backup that is restored', () => {
  let late: Recipient;
  beforeAll(async () => {
    late = { device: await newMqttDevice(dev), push: await send(api, offline.device.token) };
    await untilInbox(api, offline.device.token, [late.push.id]);
    for (const { device } of [unacked, acked]) await device.disconnect();
    await stop();
    const [data, redis] = [join(testHome.home, 'mongodb'), join(testHome.home, 'redis')];
    rmSync(data, { recursive: true });
    cpSync(`${testHome.home}-backup`, data, { recursive: true });
    rmSync(redis, { recursive: true });
    mkdirSync(redis);
    await start();
  });

  test('does not have later data', async () => {
    const { json } = await api.api<{ code: string }>('GET', `/pushes/${late.push.id}`);
    expect(json.code).toBe('INVALID_PUSH_ID');
    await expect(late.device.connect()).rejects.toThrow();
  });

  test('delivers the push that was pending then, again', async () => {
    const { device, push } = offline;
    await untilInbox(api, device.token, [push.id]);
    await device.connect();
    await device.waitFor(2);
    expect(payloadsOf(device)).toEqual([push.payload, push.payload]);
  });

  test('delivers new pushes, and none stays open', async () => {
    const { device, push } = offline;
    const next = await send(api, device.token);
    expect((await device.waitFor(3))[2]?.payload).toBe(next.payload);
    for (const { id } of [push, next]) await untilPending(api, id, []);
    await untilInbox(api, device.token, []);
  });
});
