import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { CLUSTER_SHARDS } from '../../packages/presence/src/cluster-shards.ts';
import { createDispatcher, type Dispatcher } from '../../packages/presence/src/dispatcher.ts';
import {
  createPresenceReader,
  type PresenceReader,
} from '../../packages/presence/src/presence-reader.ts';
import { createRateCounter } from '../../packages/presence/src/rate-counter.ts';
import { connectShards, type Shards } from '../../packages/presence/src/shards.ts';
import {
  leaveWithin,
  openTestGateway,
  type TestGateway,
} from '../../packages/presence/test/test-gateway.ts';
import { type RedisCluster, startRedisCluster } from '../support/topologies/redis-cluster.ts';
import { until } from '../support/until.ts';

const DEVICES = 200;
const DELIVERY = {
  ...{ push: 'p1', work: 'p1', claim: 'c1' },
  ...{ expiresAt: Date.now() + 3_600_000, payload: '{}' },
};
/** A second for the receipt, and more for a busy machine. */
const DEADLINE_MS = 3_000;
const RECOVERED = { timeoutMs: 60_000, everyMs: 200 };

let cluster: RedisCluster;
let shards: Shards;
let reader: PresenceReader;
let dispatcher: Dispatcher;
let gateway: TestGateway;
const tokens = Array.from({ length: DEVICES }, (_, n) => `device${n}`);
const errors: Error[] = [];

beforeAll(async () => {
  cluster = await startRedisCluster();
  shards = await connectShards({ url: cluster.url }, (error) => errors.push(error));
  reader = createPresenceReader(shards);
  dispatcher = await createDispatcher(shards);
  gateway = await openTestGateway(cluster.url);
  await until(async () => (await countLeases()) === CLUSTER_SHARDS.length, RECOVERED);
  await Promise.all(tokens.map((token) => gateway.connect(token, `of-${token}`)));
}, 120_000);
afterAll(async () => {
  await gateway?.channel.close();
  await dispatcher?.close();
  shards?.close();
  await cluster?.remove();
});

/** Counts the shards in which the gateway has a lease. */
async function countLeases(): Promise<number> {
  const primaries = await cluster.listPrimaries();
  const keys = await Promise.all(primaries.map((node) => node.run((redis) => redis.keys('g:*'))));
  return keys.flat().length;
}

/** Dispatches to all devices that presence knows; returns how many have acknowledged. */
async function deliverToAll(): Promise<number> {
  const recipients = tokens.map((token, position) => ({ token, position }));
  const plan = leaveWithin(DEADLINE_MS);
  const results = await dispatcher.dispatchToDevices(DELIVERY, recipients, plan);
  return [...results.values()].filter((result) => result === 'acknowledged').length;
}

test('each hash tag is in its slot, and each primary has about as many', async () => {
  const [node] = cluster.nodes;
  const slots = await node?.run((redis) =>
    Promise.all(CLUSTER_SHARDS.map(([tag]) => redis.cluster('KEYSLOT', `{${tag}}`))),
  );
  expect(slots).toEqual(CLUSTER_SHARDS.map(([, slot]) => slot));
  const served = await Promise.all(CLUSTER_SHARDS.map(([, slot]) => cluster.findPrimary(slot)));
  const perNode = cluster.nodes.map((one) => served.filter((node) => node === one).length);
  expect(perNode.filter((count) => count > 0).sort()).toEqual([5, 5, 6]);
});

test('devices are in all shards, and each is found and reached', async () => {
  expect(new Set(tokens.map((token) => shards.of(token).index)).size).toBe(CLUSTER_SHARDS.length);
  expect(await deliverToAll()).toBe(DEVICES);
});

test('a single device is found and reached, by a lookup', async () => {
  const [token = ''] = tokens;
  const plan = leaveWithin(DEADLINE_MS);
  const results = await dispatcher.dispatchToDevices(DELIVERY, [{ token, position: 0 }], plan);
  expect([...results]).toEqual([[0, 'acknowledged']]);
});

test('events are counted over all processes', async () => {
  const others = await connectShards({ url: cluster.url });
  const [one, other] = [shards, others].map((each) =>
    createRateCounter(each, (error) => errors.push(error)),
  );
  const keys = ['a', 'b', 'c', 'd', 'e', 'f'];
  await Promise.all(keys.map((key) => one?.increment(key, 60_000)));
  const counted = await Promise.all(keys.map((key) => other?.increment(key, 60_000)));
  others.close();
  expect(counted.map((result) => result?.count)).toEqual(keys.map(() => 2));
});

test('while a slot is moved its devices are found and reached, and after it', async () => {
  const [, slot] = CLUSTER_SHARDS[0];
  const from = await cluster.findPrimary(slot);
  const to = (await cluster.listPrimaries()).find((node) => node !== from);
  if (to === undefined) throw new Error('the cluster has one primary');
  const found = (entry: unknown) => typeof entry === 'object';
  await cluster.moveSlot(slot, to, async () => {
    await until(async () => (await reader.lookup(tokens)).every(found), RECOVERED);
  });
  await until(async () => (await deliverToAll()) === DEVICES, RECOVERED);
}, 90_000);

test('a node that is emptied gets its entries back, and the inboxes of their devices are read', async () => {
  const [node] = await cluster.listPrimaries();
  await node?.run((redis) => redis.flushall());
  await until(async () => (await deliverToAll()) === DEVICES, RECOVERED);
  const lost = gateway.reregistered.length;
  expect(lost).toBeGreaterThan(0);
  expect(lost).toBeLessThan(DEVICES);
}, 90_000);

test('while a primary is down devices of the others are reached, and after its recovery all devices', async () => {
  const served = await Promise.all(CLUSTER_SHARDS.map(([, slot]) => cluster.findPrimary(slot)));
  const [primary] = served;
  const isGone = (token: string) => served[shards.of(token).index] === primary;
  const others = tokens.filter((token) => !isGone(token)).length;
  await primary?.kill();
  const [shard] = shards.all;
  // The worker requests the time of each shard.
  await until(() => shard?.state() === 'failing', RECOVERED);
  expect(await deliverToAll()).toBeGreaterThanOrEqual(others);
  await until(async () => (await deliverToAll()) === DEVICES, RECOVERED);
  await cluster.startAll();
}, 120_000);
