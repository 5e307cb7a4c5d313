import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { REQUIRED_SCHEMA_VERSION } from '../../packages/store/src/schema.ts';
import { connectStore, type Store } from '../../packages/store/src/store.ts';
import { removeRateLimit, runCarillon } from '../support/carillon.ts';
import { openMongo } from '../support/mongo.ts';
import { createMqttDevice, type MqttDevice } from '../support/mqtt-device.ts';
import { registerIphone } from '../support/providers/devices.ts';
import { type Counts, openSandbox } from '../support/providers/sandbox.ts';
import { registerDevice } from '../support/register-device.ts';
import { type Stack, startStack } from '../support/stack.ts';
import { until } from '../support/until.ts';
import { type LoadBalancer, startLoadBalancer } from '../support/upgrade/load-balancer.ts';
import {
  checkOutPreviousRelease,
  type PreviousRelease,
} from '../support/upgrade/previous-release.ts';
import {
  type ReleaseProcess,
  SERVICES,
  type Service,
  startReleaseProcess,
} from '../support/upgrade/release-process.ts';
import { checkIdempotencyKey, checkProviderAddress } from '../support/upgrade/shared-rules.ts';
import { keepConnected, type SteadyLoad, startSteadyLoad } from '../support/upgrade/steady-load.ts';

const THIS_RELEASE = fileURLToPath(new URL('../..', import.meta.url));
const PROCESSES_PER_SERVICE = 2;
const PUSHES_PER_SECOND = 50;
const SETUP_MS = 360_000;
const ROLLOUT_MS = 240_000;
/** How long one process of each release is left side by side; CONTRIBUTING.md describes it. */
const MIXED_MS = Number(process.env.CARILLON_MIXED_MINUTES ?? 0) * 60_000;
/** Pushes whose state is read at once. */
const READ_AT_ONCE = 20;
/** Twelve processes start on a machine that is busy with the load. */
const ALL_STARTED = { timeoutMs: 45_000, everyMs: 200 };
const ALL_ARRIVED = { timeoutMs: 60_000, everyMs: 200 };
/** Guarantee G4: duplicates under faults, as a share of the recipients. */
const MAX_DUPLICATE_SHARE = 0.001;

let previous: PreviousRelease;
let stack: Stack;
let store: Store;
let balancers: { api: LoadBalancer; mqtt: LoadBalancer };
let load: SteadyLoad;
let stopConnecting: () => Promise<void>;
const running: ReleaseProcess[] = [];
const fleet: Record<'connected' | 'away', MqttDevice[]> = { connected: [], away: [] };
let iphones: string[];

beforeAll(async () => {
  previous = await checkOutPreviousRelease();
  // The data servers, the sandbox and the app are those of the previous release, its services are processes of the test.
  const none = { apis: 0, deliveryWorkers: 0, schedulers: 0, deviceGateways: 0 };
  stack = await startStack({ ...none, root: previous.root });
  await removeRateLimit(stack);
  store = await connectStore({ uri: stack.dev.mongodb, appName: 'test' });
  balancers = { api: await startLoadBalancer(), mqtt: await startLoadBalancer() };
  for (const service of SERVICES) {
    for (let n = 0; n < PROCESSES_PER_SERVICE; n += 1) await start(previous.root, service);
  }
  await registerFleet();
  await Promise.all(fleet.connected.map((device) => device.connect()));
  stopConnecting = keepConnected(fleet.connected);
  load = startSteadyLoad(appAddress(), PUSHES_PER_SECOND, recipientsOf);
}, SETUP_MS);

afterAll(async () => {
  await load?.stop();
  await stopConnecting?.();
  for (const device of Object.values(fleet).flat()) await device.disconnect();
  await Promise.all([...running].map((process) => stop(process).catch(() => process.kill())));
  await balancers?.api.stop();
  await balancers?.mqtt.stop();
  await store?.close();
  await stack?.stop();
  await previous?.remove();
}, SETUP_MS);

function appAddress({ port }: { port: number } = balancers.api) {
  const { app, apiKey } = stack.dev;
  return { app, apiKey, api: `http://127.0.0.1:${port}` };
}

async function registerFleet(): Promise<void> {
  const url = `mqtt://127.0.0.1:${balancers.mqtt.port}`;
  const register = async () => createMqttDevice({ url, ...(await registerDevice(appAddress())) });
  fleet.connected = await Promise.all(Array.from({ length: 10 }, register));
  fleet.away = await Promise.all(Array.from({ length: 40 }, register));
  const registrations = Array.from({ length: 5 }, () => registerIphone(appAddress()));
  iphones = (await Promise.all(registrations)).map(({ token }) => token);
}

/** Returns one device that is connected, one that is not, and one that a provider serves. */
function recipientsOf(n: number): string[] {
  const tokens = [fleet.connected, fleet.away].map((some) => some[n % some.length]?.token ?? '');
  return [...tokens, iphones[n % iphones.length] ?? ''];
}

async function start(root: string, service: Service): Promise<void> {
  const process = await startReleaseProcess(stack, root, service);
  running.push(process);
  await process.untilReady();
  balance();
}

/** Stops a process. As in a cluster the balancer learns of it late, so that some new connections are refused. */
async function stop(process: ReleaseProcess): Promise<void> {
  await process.stop();
  running.splice(running.indexOf(process), 1);
  balance();
}

function balance(): void {
  const portsOf = (service: Service) =>
    running.filter((one) => one.service === service).map(({ port }) => port);
  balancers.api.setTargets(portsOf('api'));
  balancers.mqtt.setTargets(portsOf('device-gateway'));
}

/**
 * Replaces the processes one by one: first one of each service, then the other one.
 *
 * @param mixedMs how long one of each release is left before the second half
 */
async function roll(root: string, mixedMs = 0): Promise<void> {
  const processes = [...running];
  for (let index = 0; index < PROCESSES_PER_SERVICE; index += 1) {
    for (const service of SERVICES) {
      const old = processes.filter((one) => one.service === service)[index];
      await start(root, service);
      if (old !== undefined) await stop(old);
    }
    if (index === 0) await letTimePass(mixedMs);
  }
}

/** Waits under load. @throws when a process ends meanwhile */
async function letTimePass(ms: number): Promise<void> {
  const endsAt = performance.now() + ms;
  const isOver = async () => {
    const statuses = await Promise.all(running.map((process) => process.probe('/livez')));
    return statuses.includes(0) ? 'ended' : performance.now() >= endsAt && 'over';
  };
  expect(await until(isOver, { timeoutMs: ms + 10_000, everyMs: 1_000 })).toBe('over');
}

/** Takes the last step off the record: the previous release may have the same schema as this one. */
async function setSchemaBack(): Promise<void> {
  const { db, close } = await openMongo(stack.dev);
  const older = { $set: { version: REQUIRED_SCHEMA_VERSION - 1 } };
  const { matchedCount } = await db.collection<{ _id: string }>('schema').updateOne({}, older);
  expect(matchedCount).toBe(1);
  await close();
}

test('services of this release wait for the migration, alive and not ready, and get ready after it', async () => {
  await setSchemaBack();
  expect(await runCarillon(stack.home, ['migrate', '--check'])).toMatchObject({ code: 1 });
  const early = await Promise.all(
    SERVICES.map((service) => startReleaseProcess(stack, THIS_RELEASE, service)),
  );
  try {
    for (const process of early) {
      await until(async () => (await process.probe('/livez')) === 200, ALL_STARTED);
      expect(await process.probe('/readyz')).toBe(503);
    }
    expect(await runCarillon(stack.home, ['migrate'])).toMatchObject({ code: 0 });
    for (const process of early) await process.untilReady();
  } finally {
    await Promise.all(early.map((process) => process.stop()));
  }
  expect(await runCarillon(stack.home, ['migrate', '--check'])).toMatchObject({ code: 0 });
}, 120_000);

test('each release honours the idempotency keys and provider addresses that the other has written', async () => {
  const previousApi = running.find(({ service }) => service === 'api');
  const newApi = await startReleaseProcess(stack, THIS_RELEASE, 'api');
  try {
    await newApi.untilReady();
    const apis = [appAddress(previousApi), appAddress(newApi)] as const;
    for (const [first, second] of [apis, apis.toReversed()] as (typeof apis)[]) {
      await checkIdempotencyKey(first, second);
      await checkProviderAddress(store, first, second);
    }
  } finally {
    await newApi.stop();
  }
}, 120_000);

test(
  'this release replaces the previous one, process by process',
  async () => {
    const before = load.report.accepted.size;
    await roll(THIS_RELEASE, MIXED_MS);
    expect(load.report.accepted.size).toBeGreaterThan(before + 5 * PUSHES_PER_SECOND);
  },
  ROLLOUT_MS + MIXED_MS,
);

test(
  'the previous release replaces this one, on the newer schema',
  async () => {
    const before = load.report.accepted.size;
    await roll(previous.root);
    expect(load.report.accepted.size).toBeGreaterThan(before + 5 * PUSHES_PER_SECOND);
  },
  ROLLOUT_MS,
);

test('every request succeeded, some after the end of their connection or a 503', async () => {
  await load.stop();
  const { failures, retries, refusals, accepted } = load.report;
  const repeated = `${retries} requests repeated after the end of their connection, ${refusals} after a 503`;
  process.stderr.write(`${accepted.size} pushes accepted, ${repeated}\n`);
  expect(failures).toEqual([]);
});

test('every accepted push arrived at its devices, with few duplicates', async () => {
  await stopConnecting();
  await Promise.all(
    Object.values(fleet)
      .flat()
      .map((device) => device.connect()),
  );
  const devices = new Map(
    Object.values(fleet)
      .flat()
      .map((device) => [device.token, device]),
  );
  const arrivedAt = (token: string) =>
    (devices.get(token)?.arrivals ?? []).map(({ payload }) => (JSON.parse(payload) as Payload).n);
  const missing = () => {
    const arrived = new Map([...devices.keys()].map((token) => [token, new Set(arrivedAt(token))]));
    return [...load.report.accepted.values()].flatMap(({ to, n }) =>
      to.filter((token) => arrived.get(token)?.has(n) === false),
    );
  };
  await until(() => missing().length === 0, ALL_ARRIVED).catch(() => undefined);
  expect(missing()).toEqual([]);
  const numbers = [...devices.keys()].map(arrivedAt);
  const duplicates = numbers.reduce((sum, all) => sum + all.length - new Set(all).size, 0);
  process.stderr.write(`${duplicates} duplicates over MQTT\n`);
  const recipients = 2 * load.report.accepted.size;
  expect(duplicates).toBeLessThanOrEqual(recipients * MAX_DUPLICATE_SHARE);
}, 120_000);

test('every push to the provider arrived, with few duplicates', async () => {
  const pushes = load.report.accepted.size;
  const sandbox = openSandbox(stack.dev.sandbox);
  const hasAll = async () => ((await sandbox.counts()).byChannel.apns?.accepted ?? 0) >= pushes;
  await until(hasAll, ALL_ARRIVED).catch(() => undefined);
  const counts: Counts & { doubles?: number } = await sandbox.counts();
  const { byChannel } = counts;
  // The sandbox of the previous release reports them as `doubles`.
  const duplicates = counts.doubles ?? counts.duplicates;
  expect((byChannel.apns?.accepted ?? 0) - duplicates).toBe(pushes);
  expect(duplicates).toBeLessThanOrEqual(pushes * MAX_DUPLICATE_SHARE);
}, 120_000);

test('every receipt is counted', async () => {
  const ids = [...load.report.accepted.keys()];
  const expected = { delivered: 2 * ids.length, sent: ids.length };
  const count = async () => {
    const total: Record<string, number> = {};
    for (let from = 0; from < ids.length; from += READ_AT_ONCE) {
      const some = ids.slice(from, from + READ_AT_ONCE);
      const statuses = await Promise.all(some.map(store.deliveryStatus.statusOfPush));
      for (const [outcome, n] of statuses.flatMap((status) =>
        Object.entries(status?.outcomes ?? { lost: 1 }),
      ))
        total[outcome] = (total[outcome] ?? 0) + n;
    }
    return total;
  };
  await until(async () => (await count()).delivered === expected.delivered, ALL_ARRIVED).catch(
    () => undefined,
  );
  expect(await count()).toEqual(expected);
}, 180_000);

interface Payload {
  n: number;
}
