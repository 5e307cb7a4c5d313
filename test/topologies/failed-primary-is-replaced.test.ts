import { afterEach, expect, test } from '@jest/globals';
import { connectStore } from '../../packages/store/src/store.ts';
import { type ReplicaSet, startReplicaSet } from '../support/faults/replica-set.ts';
import { type RedisCluster, startRedisCluster } from '../support/topologies/redis-cluster.ts';
import { type SentinelSet, startSentinelSet } from '../support/topologies/sentinel-set.ts';
import { until } from '../support/until.ts';

const FAILOVER_MS = 120_000;
const SLOT = 12_182;
/** A key of that slot. */
const KEY = 'foo';
/** Within this time of a new primary everything works again. */
const RECOVERED_MS = 10_000;

let servers: SentinelSet | RedisCluster | ReplicaSet | undefined;
afterEach(async () => {
  await servers?.remove();
  servers = undefined;
});

test(
  'by the Sentinels, with its data',
  async () => {
    const set = await startSentinelSet();
    servers = set;
    const former = await set.findPrimary();
    await former.run((redis) => redis.set(KEY, 'kept'));
    await former.run((redis) => redis.wait(2, 5_000));
    await former.kill();
    const primary = await set.findPrimary();
    expect(primary).not.toBe(former);
    expect(await primary.run((redis) => redis.get(KEY))).toBe('kept');
    await set.startAll();
    await until(async () => (await former.run((redis) => redis.role()))[0] === 'slave', {
      timeoutMs: FAILOVER_MS,
      what: 'the former primary as a replica',
    });
  },
  FAILOVER_MS,
);

test(
  'by a member of a replica set, and the store writes again',
  async () => {
    const set = await startReplicaSet();
    servers = set;
    const store = await connectStore({ uri: set.uri, appName: 'test' });
    try {
      const kept = await store.accounts.create('kept', 'trial');
      const former = await set.findPrimary();
      await former.kill();
      expect(await set.findPrimary()).not.toBe(former);
      const replacedAt = performance.now();
      await until(() => store.accounts.create('next', 'trial'), { timeoutMs: FAILOVER_MS });
      const tookMs = Math.round(performance.now() - replacedAt);
      process.stdout.write(`written ${tookMs} ms after the new primary\n`);
      expect(tookMs).toBeLessThanOrEqual(RECOVERED_MS);
      expect(await store.accounts.find(kept)).toBeDefined();
    } finally {
      await store.close();
    }
  },
  FAILOVER_MS,
);

test(
  'by its replica in a cluster, and a slot moves with its keys',
  async () => {
    const cluster = await startRedisCluster();
    servers = cluster;
    const former = await cluster.findPrimary(SLOT);
    await former.run((redis) => redis.set(KEY, 'kept'));
    await former.run((redis) => redis.wait(1, 5_000));
    await former.kill();
    const primary = await cluster.findPrimary(SLOT);
    expect(primary).not.toBe(former);
    expect(await primary.run((redis) => redis.get(KEY))).toBe('kept');
    const other = (await cluster.listPrimaries()).find((node) => node !== primary);
    if (other === undefined) throw new Error('the cluster has one primary');
    await cluster.moveSlot(SLOT, other);
    expect(await cluster.findPrimary(SLOT)).toBe(other);
    expect(await other.run((redis) => redis.get(KEY))).toBe('kept');
  },
  FAILOVER_MS,
);
