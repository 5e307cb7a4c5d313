import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { connectUnacknowledging } from '../support/faults/device-pool.ts';
import { countArrivals, expectComplete } from '../support/faults/expect-complete.ts';
import { type Fixture, openFixture } from '../support/faults/fixture.ts';
import {
  countBatchStates,
  isPartlyClosed,
  type SentPush,
  sendPush,
  untilPartlyClosed,
} from '../support/faults/pushes.ts';
import type { MqttDevice } from '../support/mqtt-device.ts';
import { until } from '../support/until.ts';

const POOL_SIZE = { registered: 30_000, real: 60 };
const UNACKNOWLEDGING = 6;
/** Three batches: enough for one that is held open and others that close. */
const SUBSET_SIZE = 3_000;
const WORKER = 'delivery-worker';
/** MongoDB has done by then what was sent to it before. */
const LANDED_MS = 500;

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture(POOL_SIZE);
});
afterEach(() => {
  for (const device of unacknowledging()) device.releaseReceipts();
});
afterAll(() => fixture?.close());

/** Devices that keep a few batches open by keeping their receipts back. */
function unacknowledging() {
  return fixture.pool.devices.slice(0, UNACKNOWLEDGING);
}

/** Sends to all real devices and some others, and waits until the only holder has it. */
async function pushToUnacknowledging(): Promise<SentPush> {
  const { stack, mongo, pool } = fixture;
  const [holder] = unacknowledging() as [MqttDevice];
  holder.holdReceipts();
  const push = await sendPush(stack, pool.tokens.slice(0, SUBSET_SIZE));
  await until(() => countArrivals(holder, push) > 0, { everyMs: 2 });
  await untilPartlyClosed(mongo, push);
  return push;
}

/** Freezes the worker right behind a batch's last row; nothing if it was quicker and has settled. */
async function pushUntilUnsettled(): Promise<SentPush | undefined> {
  const { stack, mongo } = fixture;
  const push = await pushToUnacknowledging();
  const row = { push: push.id, sent: true };
  await until(() => mongo.db.collection('inbox').findOne(row), { everyMs: 0 });
  stack.kill(WORKER, 'SIGSTOP');
  // A settlement that was on its way when the worker froze lands all the same.
  await sleep(LANDED_MS);
  if (isPartlyClosed(await countBatchStates(mongo, push))) return push;
  stack.kill(WORKER, 'SIGCONT');
  unacknowledging()[0]?.releaseReceipts();
  return undefined;
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
  const { stack, mongo, pool } = fixture;
  for (const device of unacknowledging()) device.holdReceipts();
  const push = await sendPush(stack, pool.tokens);
  await untilPartlyClosed(mongo, push);
  stack.kill(WORKER, 'SIGKILL');
  expect(isPartlyClosed(await countBatchStates(mongo, push))).toBe(true);
  for (const device of unacknowledging()) device.releaseReceipts();
  await expectComplete(fixture, push, 'worker killed midway');
});

test('after the hand-over, while it waits for receipts', async () => {
  const push = await pushToUnacknowledging();
  const restarted = killWorker();
  expect(isPartlyClosed(await countBatchStates(fixture.mongo, push))).toBe(true);
  await restarted;
  unacknowledging()[0]?.releaseReceipts();
  await expectComplete(fixture, push, 'worker killed after the hand-over');
});

test('when its rows are written and the batch is not settled', async () => {
  const push = await until(pushUntilUnsettled, { timeoutMs: 50_000, everyMs: 0 });
  expect(isPartlyClosed(await countBatchStates(fixture.mongo, push))).toBe(true);
  await killWorker();
  unacknowledging()[0]?.releaseReceipts();
  await expectComplete(fixture, push, 'worker killed before it settled');
});

test('twice on the same batch', async () => {
  const push = await pushToUnacknowledging();
  await killWorker();
  await until(() => pendingAfterTries(push, 2), { timeoutMs: 20_000, everyMs: 5 });
  const restarted = killWorker();
  expect(isPartlyClosed(await countBatchStates(fixture.mongo, push))).toBe(true);
  await restarted;
  unacknowledging()[0]?.releaseReceipts();
  await expectComplete(fixture, push, 'worker killed twice');
});

test('told to stop in the middle of a fan-out, it hands on what it has', async () => {
  const { stack, mongo, pool } = fixture;
  const holder = await connectUnacknowledging(stack);
  const push = await sendPush(stack, [...pool.tokens, holder.token]);
  await untilPartlyClosed(mongo, push);
  const old = stack.kill(WORKER, 'SIGTERM');
  expect(isPartlyClosed(await countBatchStates(mongo, push))).toBe(true);
  holder.cut();
  await stack.waitForRestart(WORKER, old);
  await expectComplete(fixture, push, 'worker told to stop');
  expect(pool.devices.filter((device) => countArrivals(device, push) > 1)).toEqual([]);
});
