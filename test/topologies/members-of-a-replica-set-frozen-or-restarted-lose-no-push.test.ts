import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { removeRateLimit } from '../support/carillon.ts';
import { type Fixture, openFixture } from '../support/faults/fixture.ts';
import type { MongodProcess } from '../support/faults/mongod-process.ts';
import { type ReplicaSet, runOn, startReplicaSet } from '../support/faults/replica-set.ts';
import {
  expectAcceptedAgain,
  expectRate,
  expectWholeOrAbsent,
  ROLLING_LOAD,
  type SteadyLoad,
  type SteadyPush,
  sendDuring,
} from '../support/faults/steady-pushes.ts';
import { createLagRecord } from '../support/observer-lag.ts';
import { until } from '../support/until.ts';

const LOAD = { perSecond: 30, perPush: 2 };
const DEVICES = 20;
/** Shorter than the deadline of a request to the API, which waits for the majority. */
const LAG_SECONDS = 1;
/** Guarantee G15. */
const RESPONSE_WITHIN_MS = 3_000;
/** A clean end of a mongod takes up to 15 s, in which its clients go to the others. */
const RESTARTED = { timeoutMs: 60_000, everyMs: 200 };
const LIMIT_MS = 420_000;

let replicaSet: ReplicaSet;
let fixture: Fixture;
beforeAll(async () => {
  replicaSet = await startReplicaSet();
  const env = { MONGODB_URI: replicaSet.uri };
  fixture = await openFixture({ registered: DEVICES, real: DEVICES }, { env });
  await removeRateLimit(fixture.stack);
});
afterAll(async () => {
  await fixture?.close();
  await replicaSet?.remove();
});

/** Sends pushes before, during and after a fault, and expects that each is whole or absent. Returns all. */
async function sendThrough(
  label: string,
  fault: (load: SteadyLoad) => Promise<void>,
  load = LOAD,
): Promise<readonly SteadyPush[]> {
  const { stack, pool } = fixture;
  const sent = await sendDuring(stack, pool.devices, load, async (steady) => {
    await steady.untilAccepted(2 * load.perSecond);
    try {
      await fault(steady);
    } finally {
      for (const member of replicaSet.members) member.signal('SIGCONT');
    }
    await steady.untilAccepted(2 * load.perSecond);
  });
  await expectWholeOrAbsent(label, fixture, sent);
  expect(stack.output()).not.toMatch(/ ended \(/);
  return sent;
}

async function listSecondaries(): Promise<MongodProcess[]> {
  const primary = await replicaSet.findPrimary();
  return replicaSet.members.filter((member) => member !== primary);
}

test(
  'a frozen primary is replaced: pushes are accepted again, and none is lost when it resumes',
  async () => {
    await sendThrough('a frozen primary', async (load) => {
      const frozen = await replicaSet.findPrimary();
      frozen.signal('SIGSTOP');
      expect(await replicaSet.findPrimary()).not.toBe(frozen);
      await expectAcceptedAgain('a frozen primary', load, performance.now());
      await load.untilAccepted(2 * LOAD.perSecond);
      // It still takes itself for the primary, until it hears of the election.
      frozen.signal('SIGCONT');
      await load.untilAccepted(2 * LOAD.perSecond);
    });
  },
  LIMIT_MS,
);

test(
  'a frozen secondary delays no push',
  async () => {
    await sendThrough('a frozen secondary', async (load) => {
      const [secondary] = await listSecondaries();
      secondary?.signal('SIGSTOP');
      await load.untilAccepted(2 * LOAD.perSecond);
    });
  },
  LIMIT_MS,
);

test(
  'without any secondary no push is accepted, and none is lost',
  async () => {
    await sendThrough('both secondaries frozen', async (load) => {
      for (const secondary of await listSecondaries()) secondary.signal('SIGSTOP');
      await load.untilFailed(LOAD.perSecond);
    });
  },
  LIMIT_MS,
);

test(
  'while the majority needs a secondary that lags by a second, pushes are accepted a second later',
  async () => {
    await delayLastMember(LAG_SECONDS);
    try {
      await sendThrough('a lagging secondary', async (load) => {
        const lagging = replicaSet.members.at(-1);
        const other = (await listSecondaries()).find((member) => member !== lagging);
        other?.signal('SIGSTOP');
        await load.untilAccepted(2 * LOAD.perSecond);
      });
    } finally {
      await delayLastMember(0);
    }
  },
  LIMIT_MS,
);

/** Makes the last member apply each write some seconds late. */
async function delayLastMember(seconds: number): Promise<void> {
  const primary = await replicaSet.findPrimary();
  const { config } = (await runOn(primary, { replSetGetConfig: 1 })) as {
    config: { version: number; members: Record<string, unknown>[] };
  };
  const last = config.members.at(-1);
  if (last === undefined) throw new Error('the set has no members');
  last.secondaryDelaySecs = seconds;
  await runOn(primary, { replSetReconfig: { ...config, version: config.version + 1 } });
}

/** Time without a primary, by the monotonic clock. */
interface Election {
  beganAt: number;
  endedAt: number;
}

/** Restarts the members one after the other, as an operator does: a primary steps down first. */
async function restartMembers(): Promise<Election[]> {
  const { members, findPrimary, stepDown, startAll } = replicaSet;
  const elections: Election[] = [];
  for (const member of members) {
    if ((await findPrimary()) === member) {
      const beganAt = performance.now();
      await stepDown();
      await until(async () => (await findPrimary()) !== member, RESTARTED);
      elections.push({ beganAt, endedAt: performance.now() });
    }
    member.signal('SIGTERM');
    await until(() => !member.isRunning(), { ...RESTARTED, what: 'the end of a mongod' });
    await startAll();
    const hasCaughtUp = async () => (await runOn(member, { hello: 1 })).secondary === true;
    await until(hasCaughtUp, { ...RESTARTED, what: 'a member that has caught up' });
  }
  return elections;
}

test(
  'a restart of all members, one after the other, under 200 pushes a second: only requests during an election fail, with a response',
  async () => {
    const lags = createLagRecord();
    let elections: Election[] = [];
    const restart = async () => {
      elections = await lags.during(restartMembers());
    };
    const sent = await sendThrough('a rolling restart of a replica set', restart, ROLLING_LOAD);
    const isOfElection = ({ startedAt, tookMs }: Pick<SteadyPush, 'startedAt' | 'tookMs'>) =>
      elections.some(
        ({ beganAt, endedAt }) => startedAt <= endedAt && startedAt + tookMs >= beganAt,
      );
    // What a failed test shows of an attempt: without its devices, which have all arrivals of the test.
    const refused = sent.flatMap(({ to: _, ...attempt }) => (attempt.isAccepted ? [] : [attempt]));
    const slowestMs = Math.round(Math.max(0, ...refused.map(({ tookMs }) => tookMs)));
    process.stdout.write(
      `${elections.length} elections: ${refused.length} of ${sent.length} requests failed, after ${slowestMs} ms at most\n`,
    );
    expect(elections.length).toBeGreaterThan(0);
    expect(refused.filter((attempt) => !isOfElection(attempt))).toEqual([]);
    // One with a status has JSON, or reading it would have failed.
    expect(refused.filter(({ status }) => status === undefined)).toEqual([]);
    expect(slowestMs).toBeLessThanOrEqual(RESPONSE_WITHIN_MS + 3 * lags.maxMs());
    expectRate(sent, ROLLING_LOAD);
  },
  LIMIT_MS,
);
