import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { removeRateLimit } from '../support/carillon.ts';
import { type Fixture, openFixture } from '../support/faults/fixture.ts';
import { type SentPush, sendPush } from '../support/faults/pushes.ts';
import {
  type ReplicaSet,
  readMaxOffsetMs,
  startReplicaSet,
} from '../support/faults/replica-set.ts';
import { expectWholeOrAbsent, sendDuring } from '../support/faults/steady-pushes.ts';
import { until } from '../support/until.ts';

const AHEAD_SECONDS = 2;
/** Less shows that the clock is not ahead: the time of a response is part of what is measured. */
const MIN_AHEAD_MS = 1_000;
const LOAD = { perSecond: 30, perPush: 2 };
const DEVICES = 20;
const PUSHES = 60;
/** Later than the election, whatever the machine. */
const DUE_AFTER_SECONDS = 40;
const ARRIVED = { timeoutMs: 120_000, everyMs: 200 };

let replicaSet: ReplicaSet;
let fixture: Fixture;
beforeAll(async () => {
  replicaSet = await startReplicaSet({ clocks: [0, AHEAD_SECONDS, 0] });
  const env = { MONGODB_URI: replicaSet.uri };
  fixture = await openFixture({ registered: DEVICES, real: DEVICES }, { env });
  await removeRateLimit(fixture.stack);
}, 180_000);
afterAll(async () => {
  await fixture?.close();
  await replicaSet?.remove();
});

const readPrimaryOffsetMs = async () => readMaxOffsetMs(await replicaSet.findPrimary());

interface Arrived {
  push: SentPush;
  dueMs: number;
  atMs: number[];
}

/** When a push has arrived at all devices, by the wall clock of this process. */
function arrivalsOf({ payload }: SentPush): number[] {
  return fixture.pool.devices.flatMap(({ arrivals }) =>
    arrivals.flatMap((one) =>
      one.payload === payload ? performance.timeOrigin + one.receivedAtMs : [],
    ),
  );
}

test('a primary whose clock is 2 s ahead takes over: none is lost, and none is due earlier than by its clock', async () => {
  const { stack, pool } = fixture;
  const tokens = pool.devices.map(({ token }) => token);
  const before = await readPrimaryOffsetMs();
  const firstDue = Math.floor(Date.now() / 1_000) + DUE_AFTER_SECONDS;
  const scheduled: Omit<Arrived, 'atMs'>[] = [];
  for (let n = 0; n < 10; n += 1) {
    const push = await sendPush(stack, tokens, { schedule: firstDue + n });
    scheduled.push({ push, dueMs: (firstDue + n) * 1_000 });
  }
  let aheadMs = 0;
  const sent = await sendDuring(stack, pool.devices, LOAD, async (load) => {
    await load.untilAccepted(PUSHES);
    await replicaSet.stepDown();
    aheadMs = Math.max(before, await readPrimaryOffsetMs());
    await load.untilAccepted(PUSHES);
    const isEverywhere = ({ push }: { push: SentPush }) => arrivalsOf(push).length >= DEVICES;
    await until(() => scheduled.every(isEverywhere), { ...ARRIVED, what: 'all scheduled pushes' });
    await load.untilAccepted(PUSHES);
  });
  const earliness = scheduled.map(({ push, dueMs }) => dueMs - Math.min(...arrivalsOf(push)));
  const earliest = Math.round(Math.max(...earliness));
  process.stdout.write(
    `the new primary is ${Math.round(aheadMs)} ms ahead; the earliest push came ${earliest} ms before its time\n`,
  );
  expect(aheadMs).toBeGreaterThan(MIN_AHEAD_MS);
  expect(earliest).toBeLessThanOrEqual(aheadMs);
  expect(scheduled.map(({ push }) => arrivalsOf(push).length)).toEqual(
    scheduled.map(() => DEVICES),
  );
  await expectWholeOrAbsent('a clock ahead', fixture, sent);
}, 400_000);
