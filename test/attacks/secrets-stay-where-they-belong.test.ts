import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Redis } from '../../packages/presence/src/redis.ts';
import { status } from '../../packages/webhooks/test/receiver.ts';
import {
  type Browser,
  createBrowser,
  createProgram,
  tokenOf,
} from '../../services/dashboard/test/console-under-test.ts';
import type { TestTenant } from '../support/api/tenants.ts';
import { addReceiver, type WebhookReceiver } from '../support/api/webhook-receiver.ts';
import { runCarillonJson } from '../support/carillon.ts';
import { readLogLines } from '../support/end-to-end/logs.ts';
import { send } from '../support/end-to-end/pushes.ts';
import { findProcesses } from '../support/first-run/find-processes.ts';
import { ROOT } from '../support/first-run/test-home.ts';
import { whileFrozen } from '../support/guarantees/while-frozen.ts';
import { openMongo } from '../support/mongo.ts';
import { createMqttDevice, type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import {
  type ProviderDevice,
  registerAndroidByFcm,
  registerIphone,
  registerSimulatedBrowser,
} from '../support/providers/devices.ts';
import {
  openProviderFixture,
  type ProviderFixture,
  WEB_PUSH_PAIR,
} from '../support/providers/fixture.ts';
import { untilFinal } from '../support/providers/outcomes.ts';
import {
  registerAndroidsByFcm,
  registerBrowsers,
  registerIphones,
} from '../support/providers/provider-device-pool.ts';
import { openRedis } from '../support/redis.ts';
import { readRedisContents } from '../support/redis-contents.ts';
import { type OtlpReceiver, startOtlpReceiver } from '../support/traces/otlp-receiver.ts';
import { until } from '../support/until.ts';

/** In payloads and in what a device shows; no secret, but only for the app and the device. */
const PAYLOAD = `canary${randomBytes(16).toString('hex')}`;
const WRONG_KEY = randomBytes(32).toString('hex');
const WRONG_AUTH = randomBytes(32).toString('hex');
const PASSWORD = randomBytes(16).toString('hex');
const WRONG_TOKEN = `cop_${randomBytes(32).toString('base64url')}`;
const WRONG_PASSWORD = randomBytes(16).toString('hex');
/** How Google's access tokens and all JSON Web Tokens begin; the latter have a JSON object first. */
const TOKENS = [/ya29\./, /eyJ[\w-]{10,}\.eyJ/, /[Bb]earer [\w-]/, /vapid t=/];
const CHANNELS = ['apns', 'fcm', 'web-push'] as const;
const PER_CHANNEL = 20;
/** Faults of all providers, one after the other. */
const FAULTS = [
  { dropEvery: 5 },
  { blackHole: true },
  { refuseCredential: true, expireTokens: true },
];
const NO_FAULTS = { dropEvery: null, blackHole: false, refuseCredential: false };
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
  const env = { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url, CARILLON_DEMO: '1' };
  fixture = await openProviderFixture({ dashboards: 1, ownMongodb: true, env });
  redis = await openRedis(fixture.stack.dev);
  if ('nodes' in redis) throw new Error('a cluster is not monitored');
  monitor = await redis.monitor();
  monitor.on('monitor', (_time: string, args: string[]) => commands.push(args.join(' ')));
  tenant = await fixture.tenant({ fcm: 0 });
  connected = await newMqttDevice(tenant.dev);
  await connected.connect();
  webhook = await addReceiver(tenant, WEBHOOK_PATH);
  const devices = await registerDevices();
  keys = [
    ...[tenant.apiKey, WRONG_KEY, WRONG_AUTH, connected.auth],
    ...devices.map(({ auth }) => auth),
    ...listSecretParts(),
    ...[webhook.secret.replace('whsec_', ''), WEBHOOK_PATH],
    ...(await useConsole()),
  ];
  await deliverOverEveryChannel(devices);
  await failAtTheWebhook();
  await failAtProviders(devices);
  await failAtTheApi();
}, 400_000);
afterAll(async () => {
  await connected?.disconnect();
  await webhook?.stop();
  monitor?.disconnect();
  redis?.disconnect();
  await fixture?.close();
  await receiver?.close();
});

/** Lists pieces of the providers' secrets that nothing else contains: the lines in the middle of each private key. */
function listSecretParts(): string[] {
  const { apns, fcm } = fixture.credentials;
  const pems = [apns.key, apns.certificateKey, fcm.serviceAccount.private_key];
  const lines = pems.flatMap((pem) => pem.trim().split('\n').slice(1, -1));
  return [...lines.filter((line) => line.length > 20), WEB_PUSH_PAIR.privateKey];
}

/** One device of each provider. */
async function registerDevices(): Promise<ProviderDevice[]> {
  return [
    await registerIphone(tenant.dev),
    await registerAndroidByFcm(tenant.dev),
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
  const tokens = [await useOperatorToken(browser, dev.console ?? ''), WRONG_TOKEN];
  return [PASSWORD, WRONG_PASSWORD, token, made.body.key, ...tokens, ...sessions];
}

/** Uses an operator token, and a wrong one, for a route that adds a job. Returns the token. */
async function useOperatorToken(browser: Browser, url: string): Promise<string> {
  const grant = { name: 'program', role: 'operator', accounts: 'all' };
  const { token } = (await browser.post('/api/operators/tokens', grant)).body;
  const path = `/api/apps/${tenant.app}/redrives`;
  const redrive = (of: string) => createProgram(url, of).post(path, { filter: {} });
  expect([(await redrive(WRONG_TOKEN)).status, (await redrive(token)).status]).toEqual([401, 200]);
  return token;
}

/** A webhook whose receiver responds with an error. */
async function failAtTheWebhook(): Promise<void> {
  webhook.respondWith(status(500));
  const before = webhook.requests().length;
  await send(tenant, connected.token, FIELDS);
  const isRequested = () => webhook.requests().length > before;
  await until(isRequested, { timeoutMs: 20_000, what: 'a request to the webhook' });
}

/** For each provider an error that is worth a retry, then a refused address; then all faults; last a refused credential. */
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
    await untilFinal(store, push, device.token);
  }
  const pools = [
    await registerIphones(tenant, PER_CHANNEL),
    await registerAndroidsByFcm(tenant, PER_CHANNEL),
    await registerBrowsers(tenant, sandbox, PER_CHANNEL),
  ];
  const tokens = pools.flatMap((pool) => pool.tokens);
  const setFaults = (faults: object) =>
    Promise.all(CHANNELS.map((channel) => sandbox.setFaults(channel, { ...NO_FAULTS, ...faults })));
  // Replaced at once, unlike a signature for APNs or a push service that expires so early.
  await sandbox.setFaults('fcm', { expireTokens: true });
  for (const fault of FAULTS) {
    await setFaults(fault);
    const { id } = await send(tenant, tokens, FIELDS);
    const areReached = async () =>
      new Set((await sandbox.received(id)).map(({ channel }) => channel)).size === CHANNELS.length;
    await until(areReached, { timeoutMs: 30_000 });
    if ('refuseCredential' in fault) break;
    // A circuit that is still open after one fault would send no request to the next.
    await setFaults({});
    const areAccepted = async () => {
      const accepted = (await sandbox.received(id)).filter((one) => `${one.status}`[0] === '2');
      return new Set(accepted.map(({ to }) => to)).size === tokens.length;
    };
    await until(areAccepted, { timeoutMs: 90_000 });
  }
  const list = ['credential', 'list', '--app', tenant.app];
  await until(async () =>
    JSON.stringify(await runCarillonJson(fixture.stack.home, ...list)).includes('refused'),
  );
  await setFaults({});
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

const findKeys = (text: string) => [
  ...keys.filter((key) => text.includes(key)),
  ...TOKENS.filter((token) => token.test(text)).map(String),
];

test('no key is in a log, and no payload', () => {
  const lines = readLogLines(fixture.stack.home);
  expect(lines.filter((line) => line.includes('"level":50')).length).toBeGreaterThan(0);
  for (const logged of ['"wrong password"', 'credential refused'])
    expect(lines.filter((line) => line.includes(logged)).length).toBeGreaterThan(0);
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

/** Variables that Node, the system and the libraries read; the last one is of the C library. */
const OF_THE_SYSTEM =
  /^(PATH|HOME|TZ|LANG|PWD|NODE_\w+|TMPDIR|MALLOC_(ARENA_MAX|MMAP_THRESHOLD_|TRIM_THRESHOLD_))$/;
/** Where variables are read; the simulated device is a run of the command line. */
const SOURCES: Record<string, string> = {
  cli: 'services/cli/src/stack.ts',
  sandbox: 'services/sandbox/src/main.ts',
};

interface RunningProcess {
  service: string;
  env: Map<string, string>;
}

/** All processes of the stack but the supervisor, which gives the others their variables. */
function listProcesses(): RunningProcess[] {
  return findProcesses(fixture.stack.home)
    .map((pid) => ({ service: serviceOf(pid), env: readEnvironment(pid) }))
    .filter(({ service }) => service !== 'supervisor');
}

function serviceOf(pid: number): string {
  const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  return (
    /(?:services|tools)\/([\w-]+)\//.exec(words)?.[1] ?? basename(words.split(/[\0 ]/)[0] ?? '')
  );
}

function readEnvironment(pid: number): Map<string, string> {
  const pairs = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').filter(Boolean);
  return new Map(pairs.map((pair) => [pair.replace(/=.*/s, ''), pair.replace(/^[^=]*=/, '')]));
}

/** The processes in whose environment a text is found. */
function servicesKnowing(text: string): string[] {
  const knowing = listProcesses().filter(({ env }) =>
    [...env.values()].some((value) => value.includes(text)),
  );
  return [...new Set(knowing.map(({ service }) => service))].sort();
}

/** The code that reads the environment of a process; Redis and MongoDB read nothing of ours. */
function readSource(service: string): string {
  const file = SOURCES[service] ?? `services/${service}/src/environment.ts`;
  return existsSync(join(ROOT, file)) ? read(file) + read('packages/runtime/src/env.ts') : '';
}

function read(file: string): string {
  return readFileSync(join(ROOT, file), 'utf8');
}

test('a secret is given to the processes that use it, and to no other', () => {
  const secrets = JSON.parse(readFileSync(join(fixture.stack.home, 'secrets.json'), 'utf8'));
  const services = listProcesses().map(({ service }) => service);
  expect(services).toEqual(expect.arrayContaining(['cli', 'sandbox', 'scheduler', 'mongod']));
  expect(servicesKnowing(secrets.apiKeyPepper)).toEqual(['api', 'dashboard']);
  expect(servicesKnowing(secrets.deviceAuthKeys)).toEqual(['api', 'device-gateway']);
  expect(servicesKnowing(secrets.credentialKeys)).toEqual(['dashboard', 'delivery-worker']);
  expect(servicesKnowing(secrets.apiKey)).toEqual([]);
  const withData = ['api', 'dashboard', 'delivery-worker', 'device-gateway', 'scheduler'];
  expect(servicesKnowing(fixture.stack.dev.mongodb)).toEqual(withData);
  expect(servicesKnowing(fixture.stack.dev.redis)).toEqual(withData);
});

test('a process has no variable that its code does not read', () => {
  const unread = listProcesses().flatMap(({ service, env }) => {
    const names = [...env.keys()].filter((name) => !OF_THE_SYSTEM.test(name));
    const source = readSource(service);
    return names
      .filter((name) => !new RegExp(`\\b${name.replace(/_FILE$/, '(_FILE)?')}\\b`).test(source))
      .map((name) => `${service}: ${name}`);
  });
  expect(unread).toEqual([]);
});
