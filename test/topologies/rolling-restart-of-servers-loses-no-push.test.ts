import { afterEach, expect, test } from '@jest/globals';
import { removeRateLimit } from '../support/carillon.ts';
import { type Fixture, openFixture } from '../support/faults/fixture.ts';
import { type ReplicaSet, runOn, startReplicaSet } from '../support/faults/replica-set.ts';
import {
  expectWholeOrAbsent,
  rateOf,
  type SteadyPush,
  sendDuring,
} from '../support/faults/steady-pushes.ts';
import { startRedisCluster } from '../support/topologies/redis-cluster.ts';
import { until } from '../support/until.ts';

const LOAD = { perSecond: Number(process.env.CARILLON_ROLLING_RATE ?? 200), perPush: 1 };
/** Of the rate: a machine that can't send so many has shown less. */
const SENT_AT_LEAST = 0.9;
/** Guarantee G15, with a margin for the network and for the sender on a busy machine. */
const RESPONSE_WITHIN_MS = 3_300;
const DEVICES = 20;
const PUSHES = 400;
const TEST_MS = 420_000;
/** A clean end of a mongod takes up to 15 s, in which its clients go to the others. */
const STOPPED = { timeoutMs: 60_000, what: 'the end of a mongod' };
const RESTARTED = { timeoutMs: 60_000, everyMs: 200 };

/** Time without a primary, by the monotonic clock. */
interface Election {
  beganAt: number;
  endedAt: number;
}

const cleanUps: (() => Promise<void> | undefined)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
}, TEST_MS);

async function openStack(env: Record<string, string>): Promise<Fixture> {
  const fixture = await openFixture({ registered: DEVICES, real: DEVICES }, { env });
  cleanUps.push(fixture.close);
  await removeRateLimit(fixture.stack);
  return fixture;
}

/** Restarts the members one after the other, as an operator does: a primary steps down first. */
async function restartMembers({ members, findPrimary, stepDown, startAll }: ReplicaSet) {
  const elections: Election[] = [];
  for (const member of members) {
    if ((await findPrimary()) === member) {
      const beganAt = performance.now();
      await stepDown();
      await until(async () => (await findPrimary()) !== member, RESTARTED);
      elections.push({ beganAt, endedAt: performance.now() });
    }
    member.signal('SIGTERM');
    await until(() => !member.isRunning(), STOPPED);
    await startAll();
    const hasCaughtUp = async () => (await runOn(member, { hello: 1 })).secondary === true;
    await until(hasCaughtUp, { ...RESTARTED, what: 'a member that has caught up' });
  }
  return elections;
}

/** Prints how many pushes a second were sent and accepted, and expects about as many as requested. */
function expectRate(sent: readonly SteadyPush[]): void {
  const rate = rateOf(sent);
  const accepted = rate * (1 - refusedOf(sent).length / sent.length);
  process.stdout.write(
    `${rate.toFixed(1)} of ${LOAD.perSecond} pushes a second sent, ${accepted.toFixed(1)} accepted\n`,
  );
  expect(rate).toBeGreaterThanOrEqual(SENT_AT_LEAST * LOAD.perSecond);
}

const refusedOf = (sent: readonly SteadyPush[]) => sent.filter(({ isAccepted }) => !isAccepted);
/** Returns what a failed test shows of an attempt: without its devices, which have all arrivals of the test. */
const withoutDevices = ({ to: _, ...attempt }: SteadyPush) => attempt;

test(
  'of a replica set: only requests during an election fail, with a response',
  async () => {
    const replicaSet = await startReplicaSet();
    cleanUps.push(replicaSet.remove);
    const fixture = await openStack({ MONGODB_URI: replicaSet.uri });
    let elections: Election[] = [];
    const sent = await sendDuring(fixture.stack, fixture.pool.devices, LOAD, async (load) => {
      await load.untilAccepted(PUSHES);
      elections = await restartMembers(replicaSet);
      await load.untilAccepted(PUSHES);
    });
    const isOfElection = ({ startedAt, tookMs }: SteadyPush) =>
      elections.some(
        ({ beganAt, endedAt }) => startedAt <= endedAt && startedAt + tookMs >= beganAt,
      );
    const refused = refusedOf(sent);
    const slowestMs = Math.round(Math.max(0, ...refused.map(({ tookMs }) => tookMs)));
    process.stdout.write(
      `${elections.length} elections: ${refused.length} of ${sent.length} requests failed, after ${slowestMs} ms at most\n`,
    );
    expect(elections.length).toBeGreaterThan(0);
    const others = refused.filter((attempt) => !isOfElection(attempt));
    expect(others.map(withoutDevices)).toEqual([]);
    // One with a status has JSON, or reading it would have failed.
    const withoutResponse = refused.filter((attempt) => !('status' in attempt));
    expect(withoutResponse.map(withoutDevices)).toEqual([]);
    expect(slowestMs).toBeLessThanOrEqual(RESPONSE_WITHIN_MS);
    expectRate(sent);
    await expectWholeOrAbsent('a rolling restart of a replica set', fixture, sent);
  },
  TEST_MS,
);

test(
  'of a Redis Cluster: no request fails',
  async () => {
    const cluster = await startRedisCluster();
    cleanUps.push(cluster.remove);
    const fixture = await openStack({ REDIS_URL: cluster.url });
    const sent = await sendDuring(fixture.stack, fixture.pool.devices, LOAD, async (load) => {
      await load.untilAccepted(PUSHES);
      for (const node of cluster.nodes) {
        await node.kill();
        await cluster.startAll();
        await until(cluster.isWhole, { ...RESTARTED, what: 'a replica of each primary' });
      }
      await load.untilAccepted(PUSHES);
    });
    expect(refusedOf(sent).map(withoutDevices)).toEqual([]);
    expectRate(sent);
    await expectWholeOrAbsent('a rolling restart of a cluster', fixture, sent);
  },
  TEST_MS,
);
