import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { PushDocument } from '../../packages/store/src/documents.ts';
import { removeRateLimit } from '../support/carillon.ts';
import { countArrivals } from '../support/faults/expect-complete.ts';
import { type Fixture, openFixture } from '../support/faults/fixture.ts';
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
const LATE_SECONDS = -2;

let replicaSet: ReplicaSet;
let fixture: Fixture;
beforeAll(async () => {
  replicaSet = await startReplicaSet({ clocks: [0, LATE_SECONDS, 0] });
  const env = { MONGODB_URI: replicaSet.uri };
  fixture = await openFixture({ registered: DEVICES, real: DEVICES }, { env });
  await removeRateLimit(fixture.stack);
}, 180_000);
afterAll(async () => {
  await fixture?.close();
  await replicaSet?.remove();
});

async function killPrimary(): Promise<void> {
  await (await replicaSet.findPrimary()).kill();
}

/** No process of the stack has ended and was started again. */
function expectNoDeath(): void {
  expect(fixture.stack.output()).not.toMatch(/ ended \(/);
}

test.each([
  ['steps down', () => replicaSet.stepDown()],
  ['is killed', killPrimary],
])(
  'a primary that %s under load: pushes are accepted again, and none is lost',
  async (fault, apply) => {
    const { stack, pool } = fixture;
    const primaries = [await replicaSet.findPrimary()];
    const sent = await sendDuring(stack, pool.devices, LOAD, async (load) => {
      await load.untilAccepted(PUSHES);
      await apply();
      primaries.push(await replicaSet.findPrimary());
      await expectAcceptedAgain(`a primary that ${fault}`, load, performance.now());
      await load.untilAccepted(PUSHES);
      // A member that rejoins rolls back writes that no other one has.
      await replicaSet.startAll();
      await load.untilAccepted(PUSHES);
    });
    await expectWholeOrAbsent(`a primary that ${fault}`, fixture, sent);
    expectNoDeath();
    // The primary changes between the only two that may be one: the clock goes forward or back.
    const offsets = await Promise.all(primaries.map(readMaxOffsetMs));
    expect(Math.min(...offsets)).toBeLessThan((LATE_SECONDS * 1_000) / 2);
    expect(Math.max(...offsets)).toBeGreaterThan((LATE_SECONDS * 1_000) / 2);
  },
  240_000,
);

test('a push with an idempotency key that only a lost primary had: no request got a 200', async () => {
  const { mongo, pool } = fixture;
  const primary = await replicaSet.findPrimary();
  const secondaries = replicaSet.members.filter((member) => member !== primary);
  const request = createKeyedRequest(fixture, [pool.devices[0]?.token ?? '']);
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
  const hasArrived = () => pool.devices.some((device) => countArrivals(device, push) > 0);
  await until(hasArrived, { timeoutMs: 60_000, what: 'the push' });
  await replicaSet.startAll();
  expectNoDeath();
}, 240_000);
