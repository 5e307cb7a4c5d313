import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { CLUSTER_SHARDS } from '../../packages/presence/src/cluster-shards.ts';
import { removeRateLimit, runCarillonJson } from '../support/carillon.ts';
import { type Fixture, openFixture } from '../support/faults/fixture.ts';
import { expectFaultLosesNothing } from '../support/topologies/expect-failover.ts';
import { type RedisCluster, startRedisCluster } from '../support/topologies/redis-cluster.ts';
import type { RedisNode } from '../support/topologies/redis-node.ts';
import { until } from '../support/until.ts';

const SETUP_MS = 180_000;
const FAULT_MS = 300_000;
const DEVICES = 20;

let cluster: RedisCluster;
let fixture: Fixture;
/** Slot of the queue `send`, which each push passes. */
let sendSlot: number;
beforeAll(async () => {
  cluster = await startRedisCluster();
  const [node] = cluster.nodes;
  sendSlot = Number(await node?.run((redis) => redis.cluster('KEYSLOT', '{queue-send}')));
  const env = { REDIS_URL: cluster.url };
  const processes = { apis: 2, deliveryWorkers: 2, deviceGateways: 2, schedulers: 2 };
  fixture = await openFixture({ registered: DEVICES, real: DEVICES }, { ...processes, env });
  await removeRateLimit(fixture.stack);
}, SETUP_MS);
afterAll(async () => {
  await fixture?.close();
  await cluster?.remove();
}, SETUP_MS);

// A test that fails must not fail the next.
afterEach(async () => {
  for (const node of cluster.nodes) node.thaw();
  await untilWhole();
}, SETUP_MS);

const untilOtherThan = (former: RedisNode) =>
  until(async () => (await cluster.findPrimary(sendSlot)) !== former, {
    timeoutMs: 60_000,
    everyMs: 200,
  });

/** Waits until each primary has a replica again: the next failover needs one. */
async function untilWhole(): Promise<void> {
  await cluster.startAll();
  await until(cluster.isWhole, {
    timeoutMs: 60_000,
    everyMs: 200,
    what: 'a replica of each primary',
  });
}

test(
  'carillon doctor lists the servers and reports that a failover is possible',
  async () => {
    const findings = await runCarillonJson<{ check: string; detail: string }[]>(
      fixture.stack.home,
      'doctor',
    );
    const detailOf = (name: string) => findings.find(({ check }) => check === name)?.detail;
    expect(detailOf('redis')).toMatch(
      /^(Redis|Valkey) [\d.]+: cluster of 3 primaries with 3 replicas$/,
    );
    expect(detailOf('redis failover')).toBe('a primary that fails is replaced within ten seconds');
  },
  SETUP_MS,
);

test(
  'of a primary that is killed under load',
  async () => {
    const former = await cluster.findPrimary(sendSlot);
    await expectFaultLosesNothing(fixture, {
      label: 'a killed primary of the cluster',
      begin: () => former.kill(),
      untilReplaced: () => untilOtherThan(former),
      end: untilWhole,
    });
  },
  FAULT_MS,
);

test(
  'of a primary that is suspended under load',
  async () => {
    const former = await cluster.findPrimary(sendSlot);
    await expectFaultLosesNothing(fixture, {
      label: 'a suspended primary of the cluster',
      begin: former.freeze,
      untilReplaced: () => untilOtherThan(former),
      async end() {
        former.thaw();
        await untilWhole();
      },
    });
  },
  FAULT_MS,
);

test(
  'nor does a primary that is emptied under load',
  async () => {
    const primary = await cluster.findPrimary(sendSlot);
    await expectFaultLosesNothing(fixture, {
      label: 'an emptied primary of the cluster',
      async begin() {
        await primary.run((redis) => redis.flushall());
      },
      end: () => undefined,
    });
  },
  FAULT_MS,
);

test(
  'nor do slots that move to another primary under load',
  async () => {
    const slots = [sendSlot, CLUSTER_SHARDS[0][1], CLUSTER_SHARDS[8][1]];
    await expectFaultLosesNothing(fixture, {
      label: 'moved slots of the cluster',
      async begin() {
        for (const slot of slots) {
          const from = await cluster.findPrimary(slot);
          const to = (await cluster.listPrimaries()).find((node) => node !== from);
          if (to !== undefined) await cluster.moveSlot(slot, to);
        }
      },
      end: () => undefined,
    });
  },
  FAULT_MS,
);

test(
  'nor does a restart of all servers, one after the other, under load',
  async () => {
    await expectFaultLosesNothing(fixture, {
      label: 'a rolling restart of the cluster',
      async begin() {
        for (const node of cluster.nodes) {
          await node.kill();
          await untilWhole();
        }
      },
      end: () => undefined,
    });
  },
  2 * FAULT_MS,
);
