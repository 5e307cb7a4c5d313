import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Redis } from '../../packages/presence/src/redis.ts';
import { status } from '../../packages/webhooks/test/receiver.ts';
import { createBrowser, tokenOf } from '../../services/dashboard/test/console-under-test.ts';
import type { TestTenant } from '../support/api/tenants.ts';
import { addReceiver, type WebhookReceiver } from '../support/api/webhook-receiver.ts';
import { readLogLines } from '../support/end-to-end/logs.ts';
import { send } from '../support/end-to-end/pushes.ts';
import { whileFrozen } from '../support/guarantees/while-frozen.ts';
import { openMongo } from '../support/mongo.ts';
import { createMqttDevice, type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import {
  type ProviderDevice,
  registerAndroid,
  registerIphone,
  registerSimulatedBrowser,
} from '../support/providers/devices.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import { untilFinal } from '../support/providers/outcomes.ts';
import { listSecretParts } from '../support/providers/secret-parts.ts';
import { openRedis } from '../support/redis.ts';
import { readRedisContents } from '../support/redis-contents.ts';
import { type OtlpReceiver, startOtlpReceiver } from '../support/traces/otlp-receiver.ts';
import { until } from '../support/until.ts';

/** In payloads and in what a device shows; no secret, but only for the app and the device. */
const PAYLOAD = `canary${randomBytes(16).toString('hex')}`;
const WRONG_KEY = randomBytes(32).toString('hex');
const WRONG_AUTH = randomBytes(32).toString('hex');
const PASSWORD = randomBytes(16).toString('hex');
const WRONG_PASSWORD = randomBytes(16).toString('hex');
/** An address may have a secret of its receiver. */
const WEBHOOK_PATH = `/${randomBytes(16).toString('hex')}`;

let receiver: OtlpReceiver;
let fixture: ProviderFixture;
let tenant: TestTenant;
let redis: Redis;
let monitor: Redis;
let connected: MqttDevice;
let webhook: WebhookReceiver;
/** All commands that Redis got, as texts. */
const commands: string[] = [];
/** Responses to requests that failed. */
const errors: string[] = [];
/** Keys, passwords and the like, right and wrong. */
let keys: string[];

beforeAll(async () => {
  receiver = await startOtlpReceiver();
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url };
  fixture = await openProviderFixture({ dashboards: 1, env });
  redis = await openRedis(fixture.stack.dev);
  if ('nodes' in redis) throw new Error('a cluster is not monitored');
  monitor = await redis.monitor();
  monitor.on('monitor', (_time: string, args: string[]) => commands.push(args.join(' ')));
  tenant = await fixture.tenant();
  await fixture.store.apps.updateSettings(tenant.app, { fcmFallbackSeconds: 0 });
  connected = await newMqttDevice(tenant.dev);
  await connected.connect();
  webhook = await addReceiver(tenant, WEBHOOK_PATH);
  const devices = await registerDevices();
  keys = [
    ...[tenant.apiKey, WRONG_KEY, WRONG_AUTH, connected.auth],
    ...devices.map(({ auth }) => auth),
    ...listSecretParts(fixture.credentials),
    ...[webhook.secret.replace('whsec_', ''), WEBHOOK_PATH],
    ...(await useConsole()),
  ];
  await deliverOverEveryChannel(devices);
  await failAtTheWebhook();
  await failAtProviders(devices);
  await failAtTheApi();
});
afterAll(async () => {
  await connected?.disconnect();
  await webhook?.stop();
  monitor?.disconnect();
  redis?.disconnect();
  await fixture?.close();
  await receiver?.close();
});

/** One device of each provider. */
async function registerDevices(): Promise<ProviderDevice[]> {
  return [
    await registerIphone(tenant.dev),
    await registerAndroid(tenant.dev),
    await registerSimulatedBrowser(tenant.dev, fixture.sandbox),
  ];
}

const FIELDS = { data: { text: PAYLOAD }, notification: { title: PAYLOAD, body: PAYLOAD } };

/** Also to a device that is offline first, and then gets its inbox. */
async function deliverOverEveryChannel(devices: readonly ProviderDevice[]): Promise<void> {
  const offline = await newMqttDevice(tenant.dev);
  const tokens = [connected, ...devices].map(({ token }) => token);
  const push = await send(tenant, [...tokens, offline.token], FIELDS);
  await connected.waitFor(1);
  await offline.connect();
  await offline.waitFor(1);
  await offline.disconnect();
  await until(async () => {
    const channels = (await fixture.sandbox.received(push.id)).map(({ channel }) => channel);
    return new Set(channels).size === devices.length;
  });
}

/** Creates the first operator, who makes a key and logs in again. Returns what no other user may know. */
async function useConsole(): Promise<string[]> {
  const { dev } = fixture.stack;
  const browser = createBrowser(dev.console ?? '');
  const name = 'Owner';
  const token = tokenOf(dev.setup);
  const account = { name, password: PASSWORD };
  expect((await browser.post('/api/setup', { token, ...account })).status).toBe(200);
  const made = await browser.post(`/api/apps/${tenant.app}/keys`, {});
  expect(made.status).toBe(200);
  const sessions = [...browser.cookies.values()];
  expect((await browser.post('/api/login', { name, password: WRONG_PASSWORD })).status).toBe(401);
  expect((await browser.post('/api/login', account)).status).toBe(200);
  sessions.push(...browser.cookies.values());
  expect((await browser.get(`/api/apps/${tenant.app}/webhooks`)).status).toBe(200);
  return [PASSWORD, WRONG_PASSWORD, token, made.body.key, ...sessions];
}

/** A webhook whose receiver responds with an error. */
async function failAtTheWebhook(): Promise<void> {
  webhook.respondWith(status(500));
  const before = webhook.requests().length;
  await send(tenant, connected.token, FIELDS);
  const isRequested = () => webhook.requests().length > before;
  await until(isRequested, { timeoutMs: 20_000, what: 'a request to the webhook' });
}

/** An error that is worth a retry and then a refused address, for each provider; at the end a refused credential. */
async function failAtProviders([
  iphone,
  android,
  browser,
]: readonly ProviderDevice[]): Promise<void> {
  const { sandbox, store } = fixture;
  const responses = [
    ['apns', iphone, { as: 'BadDeviceToken' }],
    ['fcm', android, { as: 'INVALID_ARGUMENT' }],
    ['web-push', browser, { status: 410 }],
  ] as const;
  for (const [channel, device, response] of responses) {
    if (device === undefined) throw new Error(`no device of ${channel}`);
    await sandbox.script(channel, device.address, [{ status: 503 }, response]);
    const push = await send(tenant, device.token, FIELDS);
    await until(async () => (await sandbox.received(push.id)).length > 1, { timeoutMs: 20_000 });
    // An Android device may still connect.
    if (channel !== 'fcm') await untilFinal(store, push, device.token);
  }
  await sandbox.setFaults('apns', { refuseCredential: true });
  const refused = await send(tenant, (await registerIphone(tenant.dev)).token, FIELDS);
  await until(async () => (await sandbox.received(refused.id)).length > 0);
  await sandbox.setFaults('apns', { refuseCredential: false });
}

/** Requests that are refused for their content, for their key, and because MongoDB is frozen. */
async function failAtTheApi(): Promise<void> {
  const { token } = connected;
  const record = async (method: string, path: string, body?: unknown) => {
    const { status, text } = await tenant.api(method, path, body);
    expect(status).toBeGreaterThanOrEqual(400);
    errors.push(text);
  };
  await record('POST', '/push', { to: token, ...FIELDS, time_to_live: PAYLOAD });
  await record('POST', '/push', { to: token, ...FIELDS, notification: { badge: PAYLOAD } });
  await record('POST', '/push', { to: token, data: { text: PAYLOAD.repeat(200) } });
  await record('POST', '/push', `{"to":"${token}","data":{"text":"${PAYLOAD}`);
  await record('POST', '/push', { to: 'nobody', ...FIELDS });
  await record('GET', `/pushes/${PAYLOAD}`);
  await record('GET', `/topics?api_key=${WRONG_KEY}`);
  await record('POST', '/devices/auth', { token, auth: WRONG_AUTH });
  await record('POST', '/devices/subscribe', { token, auth: WRONG_AUTH, topics: [] });
  const { dev } = fixture.stack;
  await createMqttDevice({ url: dev.mqtt, token, auth: WRONG_AUTH })
    .connect()
    .catch(() => undefined);
  await whileFrozen(fixture.stack, [{ service: 'mongodb' }], async () => {
    await record('POST', '/push', { to: token, ...FIELDS });
    await record('GET', '/topics');
  });
}

const findKeys = (text: string) => keys.filter((key) => text.includes(key));

test('no key is in a log, and no payload', () => {
  const lines = readLogLines(fixture.stack.home);
  expect(lines.filter((line) => line.includes('"level":50')).length).toBeGreaterThan(0);
  expect(lines.filter((line) => line.includes('"wrong password"')).length).toBeGreaterThan(0);
  expect(lines.filter((line) => findKeys(line).length > 0)).toEqual([]);
  expect(lines.filter((line) => line.includes(PAYLOAD))).toEqual([]);
});

test('no command of Redis has a key; payloads are only in the streams of gateways, in no job', () => {
  expect(commands.length).toBeGreaterThan(100);
  expect(commands.filter((command) => findKeys(command).length > 0)).toEqual([]);
  const withPayload = commands.filter((command) => command.includes(PAYLOAD));
  expect(withPayload.length).toBeGreaterThan(0);
  // The script looks up the gateway and writes its stream.
  const toGateway = /^xadd h:|^eval .*'NOMKSTREAM'.* p:\S+ g: h: deliver /is;
  expect(withPayload.filter((command) => !toGateway.test(command))).toEqual([]);
});

test('at the end Redis has payloads in those streams only, and no key', async () => {
  const entries = await readRedisContents(redis);
  expect(entries.length).toBeGreaterThan(0);
  expect(entries.filter(({ key, text }) => findKeys(`${key} ${text}`).length > 0)).toEqual([]);
  const others = entries.filter(({ key }) => !key.startsWith('h:'));
  expect(others.filter(({ key, text }) => `${key} ${text}`.includes(PAYLOAD))).toEqual([]);
});

test('no key is in MongoDB; payloads only in their push', async () => {
  const mongo = await openMongo(fixture.stack.dev);
  const found: string[] = [];
  const withPayload = new Set<string>();
  for (const { collectionName } of await mongo.db.collections()) {
    const text = JSON.stringify(await mongo.db.collection(collectionName).find().toArray());
    found.push(...findKeys(text).map((key) => `${key} in ${collectionName}`));
    if (text.includes(PAYLOAD)) withPayload.add(collectionName);
  }
  await mongo.close();
  expect(found).toEqual([]);
  expect([...withPayload]).toEqual(['pushes']);
});

test('neither is in an error response', () => {
  expect(errors.length).toBeGreaterThan(10);
  expect(errors.filter((text) => findKeys(text).length > 0 || text.includes(PAYLOAD))).toEqual([]);
});

test('neither is in a metric', async () => {
  for (const { ops } of fixture.stack.dev.processes) {
    if (ops === undefined) continue;
    const text = await (await fetch(`${ops}/metrics`)).text();
    expect(text).toContain('process_cpu');
    expect([...findKeys(text), ...(text.includes(PAYLOAD) ? [PAYLOAD] : [])]).toEqual([]);
  }
});

test('neither is in a trace', async () => {
  await until(() => receiver.spans().some(({ hasFailed }) => hasFailed), { timeoutMs: 20_000 });
  expect([
    ...findKeys(receiver.raw()),
    ...(receiver.raw().includes(PAYLOAD) ? [PAYLOAD] : []),
  ]).toEqual([]);
});
