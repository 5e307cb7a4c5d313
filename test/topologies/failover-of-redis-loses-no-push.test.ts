import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { CLUSTER_SLOT } from '../../packages/presence/src/presence-server.ts';
import { removeRateLimit, runCarillonJson } from '../support/carillon.ts';
import { untilAllArrived } from '../support/faults/expect-complete.ts';
import { type Fixture, openFixture } from '../support/faults/fixture.ts';
import { sendPush } from '../support/faults/pushes.ts';
import {
  expectRate,
  expectWholeOrAbsent,
  ROLLING_LOAD,
  sendDuring,
} from '../support/faults/steady-pushes.ts';
import { createLagRecord } from '../support/observer-lag.ts';
import { type RedisCluster, startRedisCluster } from '../support/topologies/redis-cluster.ts';
import type { RedisNode } from '../support/topologies/redis-node.ts';
import { type SentinelSet, startSentinelSet } from '../support/topologies/sentinel-set.ts';
import { until } from '../support/until.ts';

const LOAD = { perSecond: 20, perPush: 2 };
const PUSHES = 40;
const DEVICES = 20;
/** Pushes are delivered again within this time of the new primary (docs/guarantees.md). */
const RECOVERED_MS = 10_000;
const REPLACED = { timeoutMs: 60_000, everyMs: 200 };
const SETUP_MS = 180_000;
const FAULT_MS = 300_000;

let fixture: Fixture;
async function open(REDIS_URL: string): Promise<void> {
  const processes = { apis: 2, deliveryWorkers: 2, deviceGateways: 2, schedulers: 2 };
  const size = { registered: DEVICES, real: DEVICES };
  fixture = await openFixture(size, { ...processes, env: { REDIS_URL } });
  await removeRateLimit(fixture.stack);
}

/** A fault of a set of servers. */
interface ServerFault {
  begin(): unknown;
  /** Waits until there is a new primary; absent if none was replaced. */
  untilReplaced?(): Promise<unknown>;
  /** Brings the server back. */
  end?(): Promise<void> | void;
  load?: typeof LOAD;
}

/**
 * Expects that a fault under load loses no push and refuses none, that no process ends, and that pushes are delivered within
 * 10 s of the new primary; prints how long after it, or after a fault that has replaced none.
 */
async function expectFaultLosesNothing(
  label: string,
  { begin, untilReplaced, end, load = LOAD }: ServerFault,
): Promise<void> {
  const { stack, pool } = fixture;
  const lags = createLagRecord();
  const pushes = PUSHES * Math.round(load.perSecond / LOAD.perSecond);
  let recoveredMs = 0;
  const sent = await sendDuring(stack, pool.devices, load, async ({ untilAccepted }) => {
    await untilAccepted(pushes);
    await begin();
    await untilReplaced?.();
    const replacedAt = performance.now();
    const push = await sendPush(
      stack,
      pool.devices.map(({ token }) => token),
    );
    await lags.during(untilAllArrived(pool.devices, [push]));
    recoveredMs = performance.now() - replacedAt;
    await untilAccepted(pushes);
    await end?.();
    await untilAccepted(pushes);
  });
  process.stdout.write(`${label}: delivered again after ${Math.round(recoveredMs)} ms\n`);
  if (untilReplaced !== undefined)
    expect(recoveredMs).toBeLessThanOrEqual(RECOVERED_MS + 3 * lags.maxMs());
  // What a failed test shows of an attempt: without its devices, which have all arrivals of the test.
  const refused = sent.flatMap(({ to: _, ...attempt }) => (attempt.isAccepted ? [] : [attempt]));
  expect(refused).toEqual([]);
  if (load !== LOAD) expectRate(sent, load);
  await expectWholeOrAbsent(label, fixture, sent);
  // No process of the stack has ended and was started again.
  expect(stack.output()).not.toMatch(/ ended \(/);
}

/** Expects what carillon doctor says about Redis, and that a failover is possible. */
async function expectDoctor(servers: RegExp): Promise<void> {
  const { home } = fixture.stack;
  const findings = await runCarillonJson<{ check: string; detail: string }[]>(home, 'doctor');
  const detailOf = (name: string) => findings.find(({ check }) => check === name)?.detail;
  expect(detailOf('redis')).toMatch(servers);
  expect(detailOf('redis failover')).toBe('a primary that fails is replaced within ten seconds');
}

async function restartAll(nodes: readonly RedisNode[], untilWhole: () => Promise<void>) {
  for (const node of nodes) {
    await node.kill();
    await untilWhole();
  }
}

describe('behind Sentinels', () => {
  let set: SentinelSet;
  beforeAll(async () => {
    set = await startSentinelSet();
    await open(set.url);
  }, SETUP_MS);
  afterAll(async () => {
    await fixture?.close();
    await set?.remove();
  }, SETUP_MS);

  const untilOtherThan = (former: RedisNode) => () =>
    until(async () => (await set.findPrimary()) !== former, REPLACED);

  /** Waits until all servers take part again: the next failover needs a replica. */
  async function untilWhole(): Promise<void> {
    await set.startAll();
    const isWhole = async () => {
      const primary = await set.findPrimary();
      const info = await primary.run((redis) => redis.info('replication'));
      return info.match(/state=online/g)?.length === set.servers.length - 1;
    };
    await until(isWhole, { ...REPLACED, what: 'two replicas' });
  }

  test(
    'carillon doctor lists the servers and reports that a failover is possible',
    () =>
      expectDoctor(
        /^(Redis|Valkey) [\d.]+: primary 127\.0\.0\.1:\d+ of carillon, with 2 replicas and 3 Sentinels$/,
      ),
    SETUP_MS,
  );

  const failOver = () =>
    set.sentinels[0]?.run((redis) => redis.call('SENTINEL', 'FAILOVER', 'carillon'));
  test.each<[string, (primary: RedisNode) => unknown]>([
    ['of a primary that is killed', (primary) => primary.kill()],
    ['of a primary that is suspended, and resumed after it', (primary) => primary.freeze()],
    ['that an operator starts', async () => failOver()],
  ])(
    'a failover %s under load',
    async (label, begin) => {
      const former = await set.findPrimary();
      await expectFaultLosesNothing(label, {
        begin: () => begin(former),
        untilReplaced: untilOtherThan(former),
        async end() {
          former.thaw();
          await untilWhole();
        },
      });
    },
    FAULT_MS,
  );

  test(
    'a restart of all servers, one after the other, under load',
    () =>
      expectFaultLosesNothing('a rolling restart behind Sentinels', {
        begin: () => restartAll(set.servers, untilWhole),
      }),
    2 * FAULT_MS,
  );
});

describe('in a cluster', () => {
  let cluster: RedisCluster;
  const slots = { queues: 0, presence: 0 };
  beforeAll(async () => {
    cluster = await startRedisCluster();
    const slotOf = async (key: string) =>
      Number(await cluster.nodes[0]?.run((redis) => redis.cluster('KEYSLOT', key)));
    slots.queues = await slotOf('{queue}');
    slots.presence = await slotOf('{presence}');
    await open(cluster.url);
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

  /** Waits until each primary has a replica again: the next failover needs one. */
  async function untilWhole(): Promise<void> {
    await cluster.startAll();
    await until(cluster.isWhole, { ...REPLACED, what: 'a replica of each primary' });
  }

  test(
    'carillon doctor lists the servers and reports that a failover is possible',
    () => expectDoctor(/^(Redis|Valkey) [\d.]+: cluster of 3 primaries with 3 replicas$/),
    SETUP_MS,
  );

  const FAULTS: Record<string, (primary: RedisNode) => unknown> = {
    killed: (primary) => primary.kill(),
    suspended: (primary) => primary.freeze(),
    emptied: (primary) => primary.run((redis) => redis.flushall()),
  };
  test.each(
    Object.keys(FAULTS).flatMap((fault) =>
      (['queues', 'presence'] as const).map((role) => ({ fault, role })),
    ),
  )(
    'the primary of the $role is $fault under load',
    async ({ fault, role }) => {
      const slot = slots[role];
      const former = await cluster.findPrimary(slot);
      const untilReplaced = () =>
        until(async () => (await cluster.findPrimary(slot)) !== former, REPLACED);
      await expectFaultLosesNothing(`the primary of the ${role} is ${fault}`, {
        begin: () => FAULTS[fault]?.(former),
        ...(fault !== 'emptied' && { untilReplaced }),
        async end() {
          former.thaw();
          await untilWhole();
        },
      });
    },
    FAULT_MS,
  );

  test(
    'slots move to another primary under load',
    async () => {
      expect(slots.presence).toBe(CLUSTER_SLOT);
      await expectFaultLosesNothing('moved slots of the cluster', {
        async begin() {
          for (const slot of Object.values(slots)) {
            const from = await cluster.findPrimary(slot);
            const to = (await cluster.listPrimaries()).find((node) => node !== from);
            if (to !== undefined) await cluster.moveSlot(slot, to);
          }
        },
      });
    },
    FAULT_MS,
  );

  test(
    'a restart of all servers, one after the other, under 200 pushes a second',
    () =>
      expectFaultLosesNothing('a rolling restart of the cluster', {
        begin: () => restartAll(cluster.nodes, untilWhole),
        load: ROLLING_LOAD,
      }),
    2 * FAULT_MS,
  );
});
