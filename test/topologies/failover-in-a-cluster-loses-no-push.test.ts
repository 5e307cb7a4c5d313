import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { CLUSTER_SLOT } from '../../packages/presence/src/presence-server.ts';
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
/** Slots of the queues, and of presence. */
let queueSlot: number;
let presenceSlot: number;
beforeAll(async () => {
  cluster = await startRedisCluster();
  const [node] = cluster.nodes;
  const slotOf = async (key: string) =>
    Number(await node?.run((redis) => redis.cluster('KEYSLOT', key)));
  queueSlot = await slotOf('{queue}');
  presenceSlot = await slotOf('{presence}');
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

const untilOtherThan = (slot: number, former: RedisNode) =>
  until(async () => (await cluster.findPrimary(slot)) !== former, {
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

const ROLES: [string, () => number][] = [
  ['the queues', () => queueSlot],
  ['presence', () => presenceSlot],
];

test.each(ROLES)(
  'of the primary of %s that is killed under load',
  async (_role, slotOf) => {
    const slot = slotOf();
    const former = await cluster.findPrimary(slot);
    await expectFaultLosesNothing(fixture, {
      label: 'a killed primary of the cluster',
      begin: () => former.kill(),
      untilReplaced: () => untilOtherThan(slot, former),
      end: untilWhole,
    });
  },
  FAULT_MS,
);

test.each(ROLES)(
  'of the primary of %s that is suspended under load',
  async (_role, slotOf) => {
    const slot = slotOf();
    const former = await cluster.findPrimary(slot);
    await expectFaultLosesNothing(fixture, {
      label: 'a suspended primary of the cluster',
      begin: former.freeze,
      untilReplaced: () => untilOtherThan(slot, former),
      async end() {
        former.thaw();
        await untilWhole();
      },
    });
  },
  FAULT_MS,
);

test.each(ROLES)(
  'nor does the primary of %s that is emptied under load',
  async (_role, slotOf) => {
    const primary = await cluster.findPrimary(slotOf());
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
    expect(presenceSlot).toBe(CLUSTER_SLOT);
    await expectFaultLosesNothing(fixture, {
      label: 'moved slots of the cluster',
      async begin() {
        for (const slot of [queueSlot, presenceSlot]) {
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
