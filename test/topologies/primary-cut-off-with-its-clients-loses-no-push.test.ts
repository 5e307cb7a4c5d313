import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { MongoClient } from 'mongodb';
import type { PushDocument } from '../../packages/store/src/documents.ts';
import { removeRateLimit, runCarillonHere } from '../support/carillon.ts';
import { send } from '../support/end-to-end/pushes.ts';
import {
  countArrivals,
  MAX_DUPLICATES_PER_DEVICE,
  untilAllArrived,
  untilAnotherArrived,
} from '../support/faults/expect-complete.ts';
import { type Fixture, openFixture } from '../support/faults/fixture.ts';
import type { MongodProcess } from '../support/faults/mongod-process.ts';
import { sendPush } from '../support/faults/pushes.ts';
import { type ReplicaSet, runOn, startReplicaSet } from '../support/faults/replica-set.ts';
import { listStored, type SteadyPush, sendDuring } from '../support/faults/steady-pushes.ts';
import { createKeyedRequest, retryUntilAccepted } from '../support/guarantees/partial-accept.ts';
import { openProvidersOf } from '../support/providers/fixture.ts';
import { untilOutcomeCounts } from '../support/providers/outcomes.ts';
import { registerIphones } from '../support/providers/provider-device-pool.ts';
import type { Stack } from '../support/stack.ts';
import { type Network, startNetwork } from '../support/topologies/network.ts';
import { until } from '../support/until.ts';

const LOAD = { perSecond: 20, perPush: 2 };
const DEVICES = 20;
const PUSHES = 40;
const KEYED = 10;
/** Recipients of single pushes that a worker has in progress at most. */
const IN_PROGRESS = 192 * LOAD.perPush;
/** Due between the cut and some time after the old primary's step-down, each of another push. */
const RETRIED_AFTER_SECONDS = [4, 6, 8, 10, 12, 15, 20];
const LAST_RETRY_MS = 1_000 * Math.max(...RETRIED_AFTER_SECONDS);
const SETTLED = { timeoutMs: 120_000, everyMs: 300 };
const SERVICES = ['api', 'delivery-worker', 'scheduler', 'device-gateway'] as const;
type Service = (typeof SERVICES)[number];
const LIMIT_MS = 400_000;

/** A network that can be divided. Redis is reached from both sides. */
let network: Network;
let replicaSet: ReplicaSet;
let fixture: Fixture;
beforeAll(async () => {
  replicaSet = await startReplicaSet({
    async advertise(members) {
      network = await startNetwork(members);
      return network.ports;
    },
  });
  const env = { MONGODB_URI: replicaSet.uri };
  fixture = await openFixture({ registered: DEVICES, real: DEVICES }, { env });
  await removeRateLimit(fixture.stack);
}, 240_000);
afterEach(() => network?.heal());
afterAll(async () => {
  await fixture?.close();
  await replicaSet?.remove();
  await network?.stop();
});

/** Separates the primary and some services from the other members and services. Returns the primary. */
async function separatePrimary(services: readonly Service[]): Promise<MongodProcess> {
  const nodeOf = (name: Service) => ({ pid: () => fixture.stack.pidOf(name) });
  const primary = await replicaSet.findPrimary();
  network.separate([primary, ...services.map(nodeOf)], SERVICES.map(nodeOf));
  return primary;
}

/** Waits until the majority has another primary. */
async function untilReplaced(separated: MongodProcess): Promise<void> {
  const isPrimary = async (member: MongodProcess) =>
    (await runOn(member, { hello: 1 })).isWritablePrimary === true;
  const isOtherElected = async () => {
    for (const member of replicaSet.members)
      if (member !== separated && (await isPrimary(member))) return true;
    return false;
  };
  await until(isOtherElected, { ...SETTLED, what: 'a primary of the majority' });
}

const untilSteppedDown = (primary: MongodProcess) =>
  until(async () => (await runOn(primary, { hello: 1 })).isWritablePrimary !== true, SETTLED);

/** How often each payload has arrived at each of its devices. */
const arrivalsOf = (push: SteadyPush) => push.to.map((device) => countArrivals(device, push));

/** Expects that all accepted pushes have arrived, and of the others those that are stored; counts the duplicates. */
async function expectNoneLost(label: string, sent: readonly SteadyPush[]): Promise<void> {
  const accepted = sent.filter(({ isAccepted }) => isAccepted);
  const isWhole = (push: SteadyPush) => arrivalsOf(push).every((n) => n > 0);
  await until(() => accepted.every(isWhole), { ...SETTLED, what: 'all accepted pushes' });
  const stored = await listStored(fixture.mongo, sent);
  const isStored = ({ payload }: SteadyPush) => stored.has(payload);
  expect(accepted.filter((push) => !isStored(push))).toEqual([]);
  // An error leaves open whether a push is accepted.
  const open = sent.filter((push) => !push.isAccepted && isStored(push));
  await until(() => open.every(isWhole), { ...SETTLED, what: 'all stored pushes' });
  const unstored = sent.filter((push) => !isStored(push));
  expect(unstored.filter((push) => arrivalsOf(push).some((n) => n > 0))).toEqual([]);
  const repeats = sent.flatMap(arrivalsOf).reduce((sum, n) => sum + Math.max(0, n - 1), 0);
  process.stdout.write(
    `${label}: ${accepted.length} of ${sent.length} accepted, ${open.length} stored without a 200, ${repeats} repeats\n`,
  );
  // Of the batches in progress on the side of the old primary, each recipient once.
  expect(repeats).toBeLessThanOrEqual(IN_PROGRESS);
}

/** Returns the findings of carillon doctor about MongoDB's servers. */
async function askDoctor(): Promise<string> {
  const { stdout } = await runCarillonHere(fixture.stack.home, ['--json', 'doctor']);
  const findings = JSON.parse(stdout) as { check: string; detail: string }[];
  return findings.find(({ check }) => check === 'mongodb servers')?.detail ?? '';
}

test('carillon doctor lists the members, and names one that is unreachable', async () => {
  expect(await askDoctor()).toMatch(/^replica set \w+ of 3 members, all up, at most \d+ s behind/);
  const primary = await replicaSet.findPrimary();
  const other = replicaSet.members.find((member) => member !== primary);
  await other?.kill();
  await until(async () => / is \(not reachable\/healthy\)$/.test(await askDoctor()), {
    timeoutMs: 30_000,
    what: 'the doctor to name the member',
  });
  await replicaSet.startAll();
  await until(async () => (await askDoctor()).includes('all up'), SETTLED);
});

test.each<[string, readonly Service[]]>([
  ['all services', SERVICES],
  ['the workers', ['delivery-worker']],
])(
  'the primary is cut off with %s: accepted pushes arrive, others do not',
  async (side, services) => {
    const { stack, pool } = fixture;
    const sent = await sendDuring(stack, pool.devices, LOAD, async (load) => {
      await load.untilAccepted(PUSHES);
      const primary = await separatePrimary(services);
      await load.untilFailed(LOAD.perSecond);
      await untilReplaced(primary);
      await untilSteppedDown(primary);
      if (!services.includes('api')) await load.untilAccepted(PUSHES);
      network.heal();
      const healedAt = performance.now();
      await load.untilAccepted(1);
      const tookMs = Math.round(performance.now() - healedAt);
      process.stdout.write(`accepted ${tookMs} ms after the network is whole\n`);
      await load.untilAccepted(PUSHES);
    });
    await expectNoneLost(`cut off with ${side}`, sent);
    expect(stack.output()).not.toMatch(/ ended \(/);
  },
  LIMIT_MS,
);

/** Deletes a push again and again until it is deleted. */
async function untilDeleted({ api }: Pick<Stack, 'api'>, { id }: { id: string }): Promise<void> {
  const isDeleted = async () => {
    const { status, json } = await api('DELETE', `/pushes/${id}`);
    // The driver repeats a deletion at the new primary whose request has failed by then.
    return status === 200 || json.code === 'INVALID_PUSH_ID';
  };
  await until(isDeleted, { timeoutMs: 60_000, everyMs: 100, what: 'a deletion' });
}

test(
  'the primary is cut off with the workers: a push that is deleted at the new primary is sent no more',
  async () => {
    const { stack, pool } = fixture;
    const [device] = pool.devices;
    if (device === undefined) throw new Error('there is no device');
    device.holdReceipts();
    const push = await sendPush(stack, device.token);
    const count = () => countArrivals(device, push);
    await until(() => count() > 0, { what: 'the push' });
    const primary = await separatePrimary(['delivery-worker']);
    const hasFailed = async () => (await stack.api('DELETE', `/pushes/${push.id}`)).status >= 500;
    await until(hasFailed, { timeoutMs: 30_000, what: 'a deletion without a majority' });
    await untilReplaced(primary);
    await untilDeleted(stack, push);
    const deletedAt = performance.now();
    await until(() => performance.now() - deletedAt > 1_000);
    const arrived = count();
    await untilSteppedDown(primary);
    network.heal();
    device.releaseReceipts();
    await untilAnotherArrived(stack, [device]);
    process.stdout.write(`${arrived} arrivals before the deletion, ${count()} in all\n`);
    expect(count()).toBe(arrived);
    expect(arrived).toBeLessThanOrEqual(1 + MAX_DUPLICATES_PER_DEVICE);
  },
  LIMIT_MS,
);

test(
  'the primary is cut off with the workers: a retry that is due after the cut, of a push that is deleted, is not sent after the step-down',
  async () => {
    const { stack } = fixture;
    const { tenant: createTenant, sandbox, store } = await openProvidersOf(stack);
    try {
      const tenant = await createTenant();
      const { tokens, addresses } = await registerIphones(tenant, RETRIED_AFTER_SECONDS.length);
      for (const [n, seconds] of RETRIED_AFTER_SECONDS.entries()) {
        const headers = { 'retry-after': String(seconds) };
        await sandbox.script('apns', addresses[n] ?? '', [{ as: 'TooManyRequests', headers }]);
      }
      const pushes = await Promise.all(tokens.map((token) => send(tenant, token)));
      const listRequests = async () =>
        (await Promise.all(pushes.map(({ id }) => sandbox.received(id)))).flat();
      const isDeferred = async () => (await listRequests()).length === pushes.length;
      await until(isDeferred, { what: 'a first attempt of each push' });
      const primary = await separatePrimary(['delivery-worker']);
      await untilReplaced(primary);
      for (const push of pushes) await untilDeleted(tenant, push);
      await untilSteppedDown(primary);
      const quietFrom = Date.now() + 1_000;
      const lastDueAt = Math.max(...(await listRequests()).map(({ at }) => at)) + LAST_RETRY_MS;
      await until(() => Date.now() > Math.max(quietFrom, lastDueAt), SETTLED);
      network.heal();
      // Everything that was held back is sent before a push that is sent now.
      const next = await Promise.all(tokens.map((token) => send(tenant, token)));
      await Promise.all(next.map((push) => untilOutcomeCounts(store, push, { sent: 1 })));
      const late = (await listRequests()).filter(({ at }) => at > quietFrom);
      const repeats = (await listRequests()).length - pushes.length;
      process.stdout.write(`${repeats} of ${pushes.length} retries sent before the step-down\n`);
      expect(late).toEqual([]);
    } finally {
      await store.close();
    }
  },
  LIMIT_MS,
);

/** Counts the pushes with some payloads that a server has itself; its replica set may not have them. */
async function countHeld({ port }: MongodProcess, payloads: readonly string[]): Promise<number> {
  const options = { directConnection: true, readConcern: { level: 'local' } } as const;
  const client = await new MongoClient(`mongodb://127.0.0.1:${port}`, options).connect();
  try {
    const db = client.db(fixture.mongo.db.databaseName);
    const pushes = db.collection<PushDocument>('pushes');
    return await pushes.countDocuments({ data: { $in: [...payloads] } });
  } finally {
    await client.close();
  }
}

test(
  'the primary is cut off with all services: a push with a key that only it has is accepted once, when it is repeated',
  async () => {
    const { stack, pool } = fixture;
    const tokens = pool.devices.map(({ token }) => token);
    const requests = Array.from({ length: KEYED }, (_, index) =>
      createKeyedRequest({ stack }, index % 2 === 0 ? tokens.slice(0, 1) : tokens),
    );
    const primary = await separatePrimary(SERVICES);
    const payloads = requests.map(({ payload }) => payload);
    const rejections = await Promise.all(requests.map((request) => request.send()));
    expect(rejections.filter(({ status }) => status < 500)).toEqual([]);
    const lost = await countHeld(primary, payloads);
    expect(lost).toBeGreaterThan(0);
    await untilReplaced(primary);
    await untilSteppedDown(primary);
    network.heal();
    const accepted = await Promise.all(requests.map(retryUntilAccepted));
    const again = await Promise.all(requests.map((request) => request.send()));
    const idOf = ({ text }: { text: string }) => (JSON.parse(text) as { id: string }).id;
    expect(again.map(idOf)).toEqual(accepted.map(({ push }) => push.id));
    const { db } = fixture.mongo;
    const ids = accepted.map(({ push }) => push.id);
    const stored = await db
      .collection<PushDocument>('pushes')
      .find({ data: { $in: payloads } })
      .toArray();
    expect(stored.map(({ _id }) => _id).sort()).toEqual(ids.sort());
    await Promise.all(
      requests.map((request) => untilAllArrived(pool.devices.slice(0, request.devices), [request])),
    );
    await untilAnotherArrived(stack, pool.devices);
    const arrived = requests.map((request) =>
      pool.devices.map((device) => countArrivals(device, request)),
    );
    const expected = requests.map(({ devices }) =>
      pool.devices.map((_, n) => (n < devices ? 1 : 0)),
    );
    expect(arrived).toEqual(expected);
    process.stdout.write(`${lost} of ${KEYED} pushes were on the lost primary alone\n`);
  },
  LIMIT_MS,
);
