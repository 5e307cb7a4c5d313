import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { removeRateLimit } from '../support/carillon.ts';
import { type Fixture, openFixture } from '../support/faults/fixture.ts';
import type { MongodProcess } from '../support/faults/mongod-process.ts';
import { type ReplicaSet, runOn, startReplicaSet } from '../support/faults/replica-set.ts';
import {
  expectAcceptedAgain,
  expectWholeOrAbsent,
  type SteadyLoad,
  sendDuring,
} from '../support/faults/steady-pushes.ts';

const LOAD = { perSecond: 30, perPush: 2 };
const DEVICES = 20;
const PUSHES = 60;
/** Shorter than the deadline of a request to the API, which waits for the majority. */
const LAG_SECONDS = 1;

let replicaSet: ReplicaSet;
let fixture: Fixture;
beforeAll(async () => {
  replicaSet = await startReplicaSet();
  const env = { MONGODB_URI: replicaSet.uri };
  fixture = await openFixture({ registered: DEVICES, real: DEVICES }, { env });
  await removeRateLimit(fixture.stack);
}, 180_000);
afterAll(async () => {
  await fixture?.close();
  await replicaSet?.remove();
});

const thawAll = () => {
  for (const member of replicaSet.members) member.signal('SIGCONT');
};

/** Sends pushes before, during and after a fault, and expects that each is whole or absent. */
async function sendThrough(
  label: string,
  fault: (load: SteadyLoad) => Promise<void>,
): Promise<void> {
  const { stack, pool } = fixture;
  const sent = await sendDuring(stack, pool.devices, LOAD, async (load) => {
    await load.untilAccepted(PUSHES);
    try {
      await fault(load);
    } finally {
      thawAll();
    }
    await load.untilAccepted(PUSHES);
  });
  await expectWholeOrAbsent(label, fixture, sent);
  expect(stack.output()).not.toMatch(/ ended \(/);
}

async function listSecondaries(): Promise<MongodProcess[]> {
  const primary = await replicaSet.findPrimary();
  return replicaSet.members.filter((member) => member !== primary);
}

/** Waits until another member is the primary. */
async function findOtherPrimary(than: MongodProcess): Promise<void> {
  const electedAt = performance.now();
  const primary = await replicaSet.findPrimary();
  expect(primary).not.toBe(than);
  process.stdout.write(`a new primary after ${Math.round(performance.now() - electedAt)} ms\n`);
}

test('a frozen primary is replaced: pushes are accepted again, and none is lost when it resumes', async () => {
  await sendThrough('a frozen primary', async (load) => {
    const frozen = await replicaSet.findPrimary();
    frozen.signal('SIGSTOP');
    await findOtherPrimary(frozen);
    await expectAcceptedAgain('a frozen primary', load, performance.now());
    await load.untilAccepted(PUSHES);
    // It still takes itself for the primary, until it hears of the election.
    frozen.signal('SIGCONT');
    await load.untilAccepted(PUSHES);
  });
}, 300_000);

test('a frozen secondary delays no push', async () => {
  await sendThrough('a frozen secondary', async (load) => {
    const [secondary] = await listSecondaries();
    secondary?.signal('SIGSTOP');
    await load.untilAccepted(PUSHES);
  });
}, 240_000);

test('without any secondary no push is accepted, and none is lost', async () => {
  await sendThrough('both secondaries frozen', async (load) => {
    for (const secondary of await listSecondaries()) secondary.signal('SIGSTOP');
    await load.untilFailed(LOAD.perSecond);
  });
}, 240_000);

test('while the majority needs a secondary that lags by a second, pushes are accepted a second later', async () => {
  const primary = await replicaSet.findPrimary();
  await delayLastMember(primary, LAG_SECONDS);
  try {
    await sendThrough('a lagging secondary', async (load) => {
      const [first, last] = await listSecondaries();
      const other = first === replicaSet.members.at(-1) ? last : first;
      other?.signal('SIGSTOP');
      await load.untilAccepted(PUSHES);
    });
  } finally {
    await delayLastMember(await replicaSet.findPrimary(), 0);
  }
}, 300_000);

/** Makes the last member apply each write some seconds late. */
async function delayLastMember(primary: MongodProcess, seconds: number): Promise<void> {
  const { config } = (await runOn(primary, { replSetGetConfig: 1 })) as {
    config: { version: number; members: Record<string, unknown>[] };
  };
  const last = config.members.at(-1);
  if (last === undefined) throw new Error('the set has no members');
  last.secondaryDelaySecs = seconds;
  await runOn(primary, { replSetReconfig: { ...config, version: config.version + 1 } });
}
