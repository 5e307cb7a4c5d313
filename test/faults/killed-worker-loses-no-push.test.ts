import { afterAll, afterEach, beforeAll, test } from '@jest/globals';
import { countArrivals, expectComplete } from '../support/faults/expect-complete.ts';
import type { Fixture } from '../support/faults/fixture.ts';
import {
  expectPartlyClosed,
  holdReceipts,
  killMidway,
  openLargeFixture,
  releaseReceipts,
  stopMidway,
  unacknowledging,
} from '../support/faults/midway.ts';
import { type SentPush, sendPush, untilPartlyClosed } from '../support/faults/pushes.ts';
import type { MqttDevice } from '../support/mqtt-device.ts';
import { until } from '../support/until.ts';

/** Three batches: enough for one that stays open and others that close. */
const SUBSET_SIZE = 3_000;
const WORKER = 'delivery-worker';

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openLargeFixture();
});
afterEach(() => releaseReceipts(fixture));
afterAll(() => fixture?.close());

/** Sends to all real devices and some others, and waits until the only holder has it. */
async function pushToUnacknowledging(): Promise<SentPush> {
  const { stack, mongo, pool } = fixture;
  const [holder] = unacknowledging(fixture) as [MqttDevice];
  holder.holdReceipts();
  const push = await sendPush(stack, pool.tokens.slice(0, SUBSET_SIZE));
  await until(() => countArrivals(holder, push) > 0, { everyMs: 2 });
  await untilPartlyClosed(mongo, push);
  return push;
}

function killWorker(): Promise<number> {
  return fixture.stack.waitForRestart(WORKER, fixture.stack.kill(WORKER, 'SIGKILL'));
}

/** The work of a push that is open and was claimed so often. */
function pendingAfterTries(push: SentPush, tries: number) {
  const { db } = fixture.mongo;
  const open = { push: push.id, 'work.state': 'ready', 'work.tries': tries };
  return db.collection('batches').findOne({ ...open, 'work.claim': { $exists: true } });
}

test('in the middle of a page', async () => {
  holdReceipts(fixture);
  const push = await sendPush(fixture.stack, fixture.pool.tokens);
  await killMidway(fixture, WORKER, push, 'worker killed midway');
});

test('twice on the same batch', async () => {
  const push = await pushToUnacknowledging();
  await killWorker();
  await until(() => pendingAfterTries(push, 2), { timeoutMs: 20_000, everyMs: 5 });
  const restarted = killWorker();
  await expectPartlyClosed(fixture, push);
  await restarted;
  releaseReceipts(fixture);
  await expectComplete(fixture, push, 'worker killed twice');
});

test('stopped by a signal in the middle of a fan-out, it releases its batches', () =>
  stopMidway(fixture, WORKER, 'worker stopped'));
