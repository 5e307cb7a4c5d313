import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { get } from 'node:https';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { freePort } from '../../packages/presence/test/start-server.ts';
import { buildDataServers, createEngine, type Engine, ROOT } from '../support/deploy/engine.ts';
import { type HaProxy, startProxy } from '../support/deploy/haproxy.ts';
import { keepConnected, type PushLoad, startPushLoad } from '../support/deploy/push-load.ts';
import {
  type Replica,
  restartContainer,
  SERVICES,
  untilReady,
  writeReplicas,
} from '../support/deploy/replicas.ts';
import { leaveRequestsUnfinished } from '../support/deploy/unfinished-requests.ts';
import { createMqttDevice, type MqttDevice } from '../support/mqtt-device.ts';
import {
  type ProviderDevice,
  registerAndroidByFcm,
  registerIphone,
} from '../support/providers/devices.ts';
import { openSandbox, type Sandbox } from '../support/providers/sandbox.ts';
import { registerDevice } from '../support/register-device.ts';
import { until } from '../support/until.ts';

/** Load that two cores carry together with all containers, a mongod and the test itself; a larger machine carries more. */
const PUSHES_PER_SECOND = Number(process.env.CARILLON_ROLLING_RATE ?? 40);
/** Requests that a new process of the API serves before the other one is stopped and leaves it all of them. */
const WARM_UP_REQUESTS = 300;
const MAX_ERROR_LINES = 20;
const FLEET = { connected: 24, away: 48, ofProviders: 8 };
/** One push of so many is scheduled, so many seconds ahead. */
const SCHEDULED = { every: 50, aheadSeconds: 20 };
/**
 * Guarantee G7 has 1 s for 99 % of them, on a machine that is not restarting everything under load. Two cores and one disk
 * are full at more than the usual rate: a push is then late by the time that a restarted process takes to get ready.
 */
const MAX_SCHEDULED_LATE_MS = PUSHES_PER_SECOND > 40 ? 30_000 : 5_000;
/** A scheduled push that is later than this is printed with the time at which it was due. */
const ON_TIME_MS = 1_000;
/** Guarantee G4: duplicates under faults, as a share of the recipients. */
const MAX_DUPLICATE_SHARE = 0.001;
const STOP_DELAY_SECONDS = 3;
const PROJECT = `carillon-rolling-${process.pid}`;
const SETUP_MS = 900_000;
const READY_MS = 60_000;
const ROLLING_MS = 300_000;
const ALL_ARRIVED = { timeoutMs: 90_000, everyMs: 500 };

let engine: Engine;
let replicas: Replica[];
let proxy: HaProxy;
let load: PushLoad;
let sandbox: Sandbox;
let direct: { api: string; app: string };
let stopConnecting: () => Promise<void>;
let compose: (...args: string[]) => Promise<string>;
let ca: string;
const fleet: Record<'connected' | 'away', MqttDevice[]> = { connected: [], away: [] };
let iphones: ProviderDevice[];
let androids: ProviderDevice[];
let timed: ProviderDevice;

beforeAll(async () => {
  engine = await createEngine();
  await buildDataServers(engine);
  for (const target of [...SERVICES, 'cli', 'sandbox']) {
    await engine.build(target, `carillon/${target}:test`, ['--layers']);
  }
  const secrets = join(engine.folder, 'secrets');
  execFileSync(process.execPath, [join(ROOT, 'deploy/image/create-secrets.mjs'), secrets]);
  await startContainers(secrets);
  proxy = await startProxy(replicas, secrets);
  for (const { service, name } of behindProxy()) await proxy.untilUp(service, name);
  const apiKey = await createApp();
  await registerFleet();
  stopConnecting = keepConnected(fleet.connected);
  await until(areAllConnected, { timeoutMs: 30_000, what: 'all devices are connected' });
  ca = readFileSync(join(secrets, 'tls/ca.pem'), 'utf8');
  const server = { port: proxy.httpsPort, ca, apiKey };
  load = startPushLoad(server, PUSHES_PER_SECOND, nextPush);
}, SETUP_MS);

afterAll(async () => {
  await load?.stop();
  await stopConnecting?.();
  for (const device of Object.values(fleet).flat()) await device.disconnect();
  await proxy?.stop();
  await engine?.close();
}, ROLLING_MS);

async function startContainers(secrets: string): Promise<void> {
  const file = join(engine.folder, 'compose.yml');
  replicas = await writeReplicas(file);
  const sandboxPort = await freePort();
  const env = {
    ...{ CARILLON_SECRETS: secrets, CARILLON_VERSION: 'test', SANDBOX_PORT: String(sandboxPort) },
    ...{ TRUST_PROXY: '1', PROXY_PROTOCOL: 'on', STOP_DELAY_SECONDS: String(STOP_DELAY_SECONDS) },
  };
  const options = ['-f', file, '-p', PROJECT, '--profile', 'sandbox', '--profile', 'tools'];
  compose = (...args) => engine.compose(env, ...options, ...args);
  const names = replicas.map(({ name }) => name);
  await compose('up', '-d', '--no-deps', 'mongodb', 'valkey', 'migrate', 'sandbox', ...names);
  for (const replica of replicas) await untilReady(replica, READY_MS);
  sandbox = openSandbox(`http://127.0.0.1:${sandboxPort}`);
}

const carillon = (...args: string[]) =>
  compose('run', '--rm', '--no-deps', '-T', 'carillon', '--json', ...args);

async function create(...args: string[]): Promise<Record<string, string>> {
  const text = await carillon(...args);
  return JSON.parse(text.slice(text.indexOf('{')));
}

/** Creates an app that the sandbox serves. @returns its API key */
async function createApp(): Promise<string> {
  const { id: account = '' } = await create('account', 'create', 'Test', '--plan', 'pro');
  await carillon('account', 'limit', account, 'unlimited');
  const { id: app = '', apiKey = '' } = await create('app', 'create', 'Test', '--account', account);
  await carillon('app', 'set', app, '--fcm-fallback', '0');
  await carillon('credential', 'sandbox', '--app', app);
  direct = { api: `http://127.0.0.1:${replicas[0]?.port}`, app };
  return apiKey;
}

async function registerFleet(): Promise<void> {
  const url = `mqtt://127.0.0.1:${proxy.mqttPort}`;
  const times = <T>(count: number, make: () => Promise<T>) =>
    Promise.all(Array.from({ length: count }, make));
  const register = async () => createMqttDevice({ url, ...(await registerDevice(direct)) });
  fleet.connected = await times(FLEET.connected, register);
  fleet.away = await times(FLEET.away, register);
  iphones = await times(FLEET.ofProviders, () => registerIphone(direct));
  androids = await times(FLEET.ofProviders, () => registerAndroidByFcm(direct));
  timed = await registerIphone(direct);
}

/** Sends to a device with a connection, and in turn to one without and to one of a provider. */
function nextPush(n: number): { to: string[]; schedule?: number } {
  if (n % SCHEDULED.every === 0) {
    return { to: [timed.token], schedule: Math.ceil(Date.now() / 1_000) + SCHEDULED.aheadSeconds };
  }
  const kinds = [fleet.away, iphones, fleet.away, androids];
  const others = kinds[n % kinds.length] ?? [];
  const tokenOf = (some: readonly { token: string }[], index: number) =>
    some[index % some.length]?.token ?? '';
  return { to: [tokenOf(fleet.connected, n), tokenOf(others, Math.floor(n / kinds.length))] };
}

const behindProxy = () => replicas.filter(({ port }) => port !== 0);
const areAllConnected = () => fleet.connected.every(({ connected }) => connected);

/** Reads how many devices each gateway has. */
async function countByGateway(): Promise<number[]> {
  const names = replicas.filter(({ service }) => service === 'device-gateway');
  const rows = await Promise.all(names.map(({ name }) => proxy.read('device-gateway', name)));
  return rows.map(({ scur }) => Number(scur));
}

test('the devices are spread over both gateways', async () => {
  expect(await countByGateway()).toEqual([FLEET.connected / 2, FLEET.connected / 2]);
});

test(
  'each container in turn is stopped within its deadline, started again, and gets ready',
  async () => {
    const startedAt = performance.now();
    for (const replica of replicas) {
      const { service, name } = replica;
      const at = performance.now();
      const code = await restartContainer(engine, `${PROJECT}_${name}_1`, replica);
      await untilReady(replica, READY_MS);
      if (replica.port !== 0) await proxy.untilUp(service, name);
      if (service === 'api') await proxy.untilWarm(service, name, WARM_UP_REQUESTS);
      report(`${clock(at)} s: ${name} restarted in ${Math.round(performance.now() - at)} ms`);
      expect({ name, code }).toEqual({ name, code: 0 });
    }
    const seconds = (performance.now() - startedAt) / 1_000;
    await load.stop();
    const { accepted, latenciesMs } = load.report;
    const sorted = latenciesMs.toSorted((a, b) => a - b);
    const p99 = Math.round(sorted[Math.floor(sorted.length * 0.99)] ?? 0);
    report(`${accepted.size} pushes accepted, ${Math.round(accepted.size / seconds)} a second`);
    report(`99 % of them within ${p99} ms, the last after ${Math.round(sorted.at(-1) ?? 0)} ms`);
    expect(accepted.size).toBeGreaterThan(seconds * PUSHES_PER_SECOND * 0.95);
  },
  ROLLING_MS,
);

test('no request failed, and none was repeated', async () => {
  const { wretr, wredis, econ, eresp } = await proxy.read('api', 'BACKEND');
  report(`haproxy: ${JSON.stringify({ wretr, wredis, econ, eresp })}`);
  if (load.report.failures.length > 0) report(await readErrorLines('api'));
  expect(load.report.failures).toEqual([]);
});

/** Reads what the processes of a service logged as warnings and errors. */
async function readErrorLines(of: Replica['service']): Promise<string> {
  const names = replicas.filter(({ service }) => service === of).map(({ name }) => name);
  const logs = await Promise.all(
    names.map((name) => engine.podman('logs', `${PROJECT}_${name}_1`)),
  );
  return logs
    .flatMap((log) => log.split('\n'))
    .filter((line) => /"level":(40|50)\b/.test(line))
    .slice(0, MAX_ERROR_LINES)
    .join('\n');
}

test('the devices reconnect by themselves, and new connections go to the gateway with the fewest', async () => {
  await until(areAllConnected, { timeoutMs: 30_000, what: 'all devices are connected' });
  const before = await countByGateway();
  report(`connections of the gateways: ${before.join(' and ')}`);
  await Promise.all(fleet.away.map((device) => device.connect()));
  const after = await countByGateway();
  report(`with those that were away: ${after.join(' and ')}`);
  expect(Math.abs((after[0] ?? 0) - (after[1] ?? 0))).toBeLessThanOrEqual(2);
});

test('every push arrived at its devices, with few duplicates', async () => {
  const devices = Object.values(fleet).flat();
  const numbersOf = ({ arrivals }: MqttDevice) =>
    arrivals.map(({ payload }) => (JSON.parse(payload) as { n: number }).n);
  const findMissing = () => {
    const seen = new Map(devices.map((device) => [device.token, new Set(numbersOf(device))]));
    return [...load.report.accepted.values()].flatMap(({ to, n }) =>
      to.filter((token) => seen.get(token)?.has(n) === false),
    );
  };
  await until(() => findMissing().length === 0, ALL_ARRIVED).catch(() => undefined);
  expect(findMissing()).toEqual([]);
  const all = devices.map(numbersOf);
  const arrived = all.reduce((sum, some) => sum + some.length, 0);
  const duplicates = all.reduce((sum, some) => sum + some.length - new Set(some).size, 0);
  report(`${arrived} arrivals over MQTT, ${duplicates} of them duplicates`);
  expect(duplicates).toBeLessThanOrEqual(arrived * MAX_DUPLICATE_SHARE);
});

test('every push arrived at its provider, with few duplicates', async () => {
  const tokens = new Set([...iphones, ...androids, timed].map(({ token }) => token));
  const pushes = [...load.report.accepted.values()].filter(({ to }) =>
    to.some((token) => tokens.has(token)),
  ).length;
  const count = async () => {
    const { byChannel, duplicates } = await sandbox.counts();
    const accepted = (byChannel.apns?.accepted ?? 0) + (byChannel.fcm?.accepted ?? 0);
    return { once: accepted - duplicates, duplicates };
  };
  await until(async () => (await count()).once >= pushes, ALL_ARRIVED).catch(() => undefined);
  const { once, duplicates } = await count();
  report(`${once} pushes at the providers, ${duplicates} duplicates`);
  expect(once).toBe(pushes);
  expect(duplicates).toBeLessThanOrEqual(pushes * MAX_DUPLICATE_SHARE);
});

test('every scheduled push arrived on time', async () => {
  const lateMs: number[] = [];
  for (const [id, { schedule }] of load.report.accepted) {
    if (schedule === undefined) continue;
    const [first] = await sandbox.received(id);
    const late = first === undefined ? Number.POSITIVE_INFINITY : first.at - schedule * 1_000;
    if (late > ON_TIME_MS) {
      report(`${clock(schedule * 1_000 - performance.timeOrigin)} s: due, ${late} ms late`);
    }
    lateMs.push(late);
  }
  const worst = Math.max(...lateMs);
  report(`${lateMs.length} scheduled pushes, at most ${worst} ms late`);
  expect(lateMs.length).toBeGreaterThan(10);
  expect(Math.min(...lateMs)).toBeGreaterThanOrEqual(0);
  if (worst > MAX_SCHEDULED_LATE_MS) report(await readErrorLines('delivery-worker'));
  expect(worst).toBeLessThanOrEqual(MAX_SCHEDULED_LATE_MS);
});

test('one address that leaves requests unfinished takes no connection from others', async () => {
  const close = await leaveRequestsUnfinished(proxy.httpsPort, ca, '127.0.0.3');
  try {
    for (let n = 0; n < 20; n += 1) expect(await requestFrom('127.0.0.2')).toBe(200);
    for (const { service, name } of behindProxy())
      expect((await proxy.read(service, name)).status).toBe('UP');
  } finally {
    close();
  }
});

/** Requests a page of the API on a new connection. @returns the status */
async function requestFrom(localAddress: string): Promise<number | undefined> {
  const options = { host: '127.0.0.1', port: proxy.httpsPort, ca, localAddress, agent: false };
  const [response] = (await once(get({ ...options, path: '/openapi.json' }), 'response')) as [
    IncomingMessage,
  ];
  response.resume();
  return response.statusCode;
}

/** Formats a time, in ms on the clock of this process, in seconds since this process began. */
const clock = (at: number) => (at / 1_000).toFixed(1);

function report(line: string): void {
  process.stdout.write(`${line}\n`);
}
