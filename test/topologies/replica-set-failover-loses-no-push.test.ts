import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { PushDocument } from '../../packages/store/src/documents.ts';
import { removeRateLimit } from '../support/carillon.ts';
import { untilAllArrived } from '../support/faults/expect-complete.ts';
import { type Fixture, openFixture } from '../support/faults/fixture.ts';
import { type SentPush, sendPush } from '../support/faults/pushes.ts';
import {
  type ReplicaSet,
  readMaxOffsetMs,
  startReplicaSet,
} from '../support/faults/replica-set.ts';
import {
  expectAcceptedAgain,
  expectWholeOrAbsent,
  sendDuring,
} from '../support/faults/steady-pushes.ts';
import { createKeyedRequest, retryUntilAccepted } from '../support/guarantees/partial-accept.ts';
import { until } from '../support/until.ts';

const LOAD = { perSecond: 50, perPush: 2 };
const DEVICES = 20;
const PUSHES = 100;
/** Of the clock of the member that becomes the primary after the first. */
const AHEAD_SECONDS = 2;
/** Less shows that the clock is not ahead: the time of a response is part of what is measured. */
const MIN_AHEAD_MS = 1_000;
/** Later than the election, whatever the machine. */
const DUE_AFTER_SECONDS = 40;
const SCHEDULED = 10;
const LIMIT_MS = 400_000;

let replicaSet: ReplicaSet;
let fixture: Fixture;
beforeAll(async () => {
  replicaSet = await startReplicaSet({ clocks: [0, AHEAD_SECONDS, 0] });
  const env = { MONGODB_URI: replicaSet.uri };
  fixture = await openFixture({ registered: DEVICES, real: DEVICES }, { env });
  await removeRateLimit(fixture.stack);
});
afterAll(async () => {
  await fixture?.close();
  await replicaSet?.remove();
});

const readPrimaryOffsetMs = async () => readMaxOffsetMs(await replicaSet.findPrimary());

/** No process of the stack has ended and was started again. */
function expectNoDeath(): void {
  expect(fixture.stack.output()).not.toMatch(/ ended \(/);
}

test.each<[string, () => Promise<void>]>([
  ['steps down', () => replicaSet.stepDown()],
  ['is killed', async () => (await replicaSet.findPrimary()).kill()],
])(
  'a primary that %s under load: pushes are accepted again, and none is lost',
  async (fault, apply) => {
    const { stack, pool } = fixture;
    const offsets = [await readPrimaryOffsetMs()];
    const sent = await sendDuring(stack, pool.devices, LOAD, async (load) => {
      await load.untilAccepted(PUSHES);
      await apply();
      await replicaSet.findPrimary();
      await expectAcceptedAgain(`a primary that ${fault}`, load, performance.now());
      offsets.push(await readPrimaryOffsetMs());
      await load.untilAccepted(PUSHES);
      // A member that rejoins rolls back writes that no other one has.
      await replicaSet.startAll();
      await load.untilAccepted(PUSHES);
    });
    await expectWholeOrAbsent(`a primary that ${fault}`, fixture, sent);
    expectNoDeath();
    // The primary changes between the only two that may be one: the clock goes forward or back.
    expect(Math.min(...offsets)).toBeLessThan(MIN_AHEAD_MS);
    expect(Math.max(...offsets)).toBeGreaterThan(MIN_AHEAD_MS);
  },
  LIMIT_MS,
);

test(
  'a push with an idempotency key that only a lost primary had: no request got a 200',
  async () => {
    const { mongo, pool } = fixture;
    const primary = await replicaSet.findPrimary();
    const secondaries = replicaSet.members.filter((member) => member !== primary);
    const request = createKeyedRequest(fixture, pool.tokens.slice(0, 1));
    for (const secondary of secondaries) secondary.signal('SIGSTOP');
    const first = request.send();
    const pushes = mongo.db.collection<PushDocument>('pushes');
    const isStored = () => pushes.findOne({ 'idempotency.key': request.key });
    await until(isStored, { what: 'the push on the primary' });
    const repeated = await Promise.all([request.send(), request.send()]);
    await primary.kill();
    for (const secondary of secondaries) secondary.signal('SIGCONT');
    const statuses = [await first, ...repeated].map(({ status }) => status);
    expect(statuses.filter((status) => status < 500)).toEqual([]);
    const { push } = await retryUntilAccepted(request);
    await untilAllArrived(pool.devices.slice(0, 1), [push]);
    await replicaSet.startAll();
    expectNoDeath();
  },
  LIMIT_MS,
);

test(
  'a primary whose clock is 2 s ahead takes over: none is lost, and none is due earlier than by its clock',
  async () => {
    const { stack, pool } = fixture;
    // An earlier change of the primary may have left the member whose clock is ahead.
    if ((await readPrimaryOffsetMs()) > MIN_AHEAD_MS) await replicaSet.stepDown();
    await until(async () => (await readPrimaryOffsetMs()) < MIN_AHEAD_MS);
    const firstDue = Math.floor(Date.now() / 1_000) + DUE_AFTER_SECONDS;
    const scheduled: (SentPush & { dueMs: number })[] = [];
    for (let n = firstDue; n < firstDue + SCHEDULED; n += 1)
      scheduled.push({
        ...(await sendPush(stack, pool.tokens, { schedule: n })),
        dueMs: n * 1_000,
      });
    let aheadMs = 0;
    const sent = await sendDuring(stack, pool.devices, LOAD, async (load) => {
      await load.untilAccepted(PUSHES);
      await replicaSet.stepDown();
      aheadMs = await readPrimaryOffsetMs();
      await load.untilAccepted(PUSHES);
      await until(() => Date.now() > (firstDue + SCHEDULED) * 1_000, { timeoutMs: 120_000 });
      await untilAllArrived(pool.devices, scheduled);
      await load.untilAccepted(PUSHES);
    });
    /** By the wall clock of this process. */
    const arrivalsOf = ({ payload }: SentPush) =>
      pool.devices.flatMap(({ arrivals }) =>
        arrivals
          .filter((one) => one.payload === payload)
          .map(({ receivedAtMs }) => performance.timeOrigin + receivedAtMs),
      );
    const earliness = scheduled.map((push) => push.dueMs - Math.min(...arrivalsOf(push)));
    const earliest = Math.round(Math.max(...earliness));
    process.stdout.write(
      `the new primary is ${Math.round(aheadMs)} ms ahead; the earliest push came ${earliest} ms before its time\n`,
    );
    expect(aheadMs).toBeGreaterThan(MIN_AHEAD_MS);
    expect(earliest).toBeLessThanOrEqual(aheadMs);
    expect(scheduled.map((push) => arrivalsOf(push).length)).toEqual(scheduled.map(() => DEVICES));
    await expectWholeOrAbsent('a clock ahead', fixture, sent);
  },
  LIMIT_MS,
);
