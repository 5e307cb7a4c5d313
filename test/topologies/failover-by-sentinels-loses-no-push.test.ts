import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { removeRateLimit, runCarillonJson } from '../support/carillon.ts';
import { type Fixture, openFixture } from '../support/faults/fixture.ts';
import { expectFaultLosesNothing } from '../support/topologies/expect-failover.ts';
import type { RedisNode } from '../support/topologies/redis-node.ts';
import { type SentinelSet, startSentinelSet } from '../support/topologies/sentinel-set.ts';
import { until } from '../support/until.ts';

const SETUP_MS = 180_000;
const FAULT_MS = 300_000;
const DEVICES = 20;

let set: SentinelSet;
let fixture: Fixture;
beforeAll(async () => {
  set = await startSentinelSet();
  const env = { REDIS_URL: set.url };
  const processes = { apis: 2, deliveryWorkers: 2, deviceGateways: 2, schedulers: 2 };
  fixture = await openFixture({ registered: DEVICES, real: DEVICES }, { ...processes, env });
  await removeRateLimit(fixture.stack);
}, SETUP_MS);
afterAll(async () => {
  await fixture?.close();
  await set?.remove();
}, SETUP_MS);

/** Waits until another server is the primary. */
const untilOtherThan = (former: RedisNode | undefined) =>
  until(async () => (await set.findPrimary()) !== former, { timeoutMs: 60_000, everyMs: 200 });

/** Waits until all servers take part again: the next failover needs a replica. */
async function untilWhole(): Promise<void> {
  await set.startAll();
  const isWhole = async () => {
    const primary = await set.findPrimary();
    const info = await primary.run((redis) => redis.info('replication'));
    return info.match(/state=online/g)?.length === set.servers.length - 1;
  };
  await until(isWhole, { timeoutMs: 60_000, everyMs: 200, what: 'two replicas' });
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
      /^(Redis|Valkey) [\d.]+: primary 127\.0\.0\.1:\d+ of carillon, with 2 replicas and 3 Sentinels$/,
    );
    expect(detailOf('redis failover')).toBe('a primary that fails is replaced within ten seconds');
  },
  SETUP_MS,
);

test(
  'of a primary that is killed under load',
  async () => {
    const former = await set.findPrimary();
    await expectFaultLosesNothing(fixture, {
      label: 'a killed primary',
      begin: () => former.kill(),
      untilReplaced: () => untilOtherThan(former),
      end: untilWhole,
    });
  },
  FAULT_MS,
);

test(
  'of a primary that is suspended under load, and resumed after its replacement',
  async () => {
    const former = await set.findPrimary();
    await expectFaultLosesNothing(fixture, {
      label: 'a suspended primary',
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
  'that an operator starts under load',
  async () => {
    const former = await set.findPrimary();
    const [sentinel] = set.sentinels;
    await expectFaultLosesNothing(fixture, {
      label: 'a failover on request',
      async begin() {
        await sentinel?.run((redis) => redis.call('SENTINEL', 'FAILOVER', 'carillon'));
      },
      untilReplaced: () => untilOtherThan(former),
      end: untilWhole,
    });
  },
  FAULT_MS,
);

test(
  'nor does a restart of all servers, one after the other, under load',
  async () => {
    await expectFaultLosesNothing(fixture, {
      label: 'a rolling restart of the servers',
      async begin() {
        for (const node of set.servers) {
          await node.kill();
          await untilWhole();
        }
      },
      end: () => undefined,
    });
  },
  2 * FAULT_MS,
);
