import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { holdOpen } from '../support/faults/crowd.ts';
import {
  isMidway,
  type SentPush,
  sendPush,
  untilMidway,
  workStates,
} from '../support/faults/pushes.ts';
import { openScene, type Scene } from '../support/faults/scene.ts';
import { countOf, expectWhole } from '../support/faults/whole.ts';
import type { MqttDevice } from '../support/mqtt-device.ts';
import { until } from '../support/until.ts';

const CROWD = { registered: 30_000, real: 60 };
const HOLDERS = 6;
/** Three batches: enough for one that is held open and others that close. */
const SOME = 3_000;
const WORKER = 'delivery-worker';
/** MongoDB has done by then what was sent to it before. */
const LANDED_MS = 500;

let scene: Scene;
beforeAll(async () => {
  scene = await openScene(CROWD);
});
afterEach(() => {
  for (const device of holders()) device.releaseReceipts();
});
afterAll(() => scene?.close());

/** Devices that keep a few batches open by keeping their receipts back. */
function holders() {
  return scene.crowd.devices.slice(0, HOLDERS);
}

/** Sends to all real devices and some others, and waits until the only holder has it. */
async function pushToHolder(): Promise<SentPush> {
  const { stack, mongo, crowd } = scene;
  const [holder] = holders() as [MqttDevice];
  holder.holdReceipts();
  const push = await sendPush(stack, crowd.tokens.slice(0, SOME));
  await until(() => countOf(holder, push) > 0, { everyMs: 2 });
  await untilMidway(mongo, push);
  return push;
}

/** Freezes the worker right behind a batch's last row; nothing if it was quicker and has settled. */
async function pushToUnsettled(): Promise<SentPush | undefined> {
  const { stack, mongo } = scene;
  const push = await pushToHolder();
  const row = { push: push.id, sent: true };
  await until(() => mongo.db.collection('inbox').findOne(row), { everyMs: 0 });
  stack.kill(WORKER, 'SIGSTOP');
  // A settlement that was on its way when the worker froze lands all the same.
  await sleep(LANDED_MS);
  if (isMidway(await workStates(mongo, push))) return push;
  stack.kill(WORKER, 'SIGCONT');
  holders()[0]?.releaseReceipts();
  return undefined;
}

function killWorker(): Promise<number> {
  return scene.stack.waitForRestart(WORKER, scene.stack.kill(WORKER, 'SIGKILL'));
}

/** The work of a push that is open and was claimed so often. */
function openAfter(push: SentPush, tries: number) {
  const { db } = scene.mongo;
  const open = { push: push.id, 'work.state': 'ready', 'work.tries': tries };
  return db.collection('batches').findOne({ ...open, 'work.claim': { $exists: true } });
}

test('in the middle of a page', async () => {
  const { stack, mongo, crowd } = scene;
  for (const device of holders()) device.holdReceipts();
  const push = await sendPush(stack, crowd.tokens);
  await untilMidway(mongo, push);
  stack.kill(WORKER, 'SIGKILL');
  expect(isMidway(await workStates(mongo, push))).toBe(true);
  for (const device of holders()) device.releaseReceipts();
  await expectWhole(scene, push, 'worker killed midway');
});

test('after the hand-over, while it waits for receipts', async () => {
  const push = await pushToHolder();
  const restarted = killWorker();
  expect(isMidway(await workStates(scene.mongo, push))).toBe(true);
  await restarted;
  holders()[0]?.releaseReceipts();
  await expectWhole(scene, push, 'worker killed after the hand-over');
});

test('when its rows are written and the batch is not settled', async () => {
  const push = await until(pushToUnsettled, { timeoutMs: 50_000, everyMs: 0 });
  expect(isMidway(await workStates(scene.mongo, push))).toBe(true);
  await killWorker();
  holders()[0]?.releaseReceipts();
  await expectWhole(scene, push, 'worker killed before it settled');
});

test('twice on the same batch', async () => {
  const push = await pushToHolder();
  await killWorker();
  await until(() => openAfter(push, 2), { timeoutMs: 20_000, everyMs: 5 });
  const restarted = killWorker();
  expect(isMidway(await workStates(scene.mongo, push))).toBe(true);
  await restarted;
  holders()[0]?.releaseReceipts();
  await expectWhole(scene, push, 'worker killed twice');
});

test('told to stop in the middle of a fan-out, it hands on what it has', async () => {
  const { stack, mongo, crowd } = scene;
  const holder = await holdOpen(stack);
  const push = await sendPush(stack, [...crowd.tokens, holder.token]);
  await untilMidway(mongo, push);
  const old = stack.kill(WORKER, 'SIGTERM');
  expect(isMidway(await workStates(mongo, push))).toBe(true);
  holder.cut();
  await stack.waitForRestart(WORKER, old);
  await expectWhole(scene, push, 'worker told to stop');
  expect(crowd.devices.filter((device) => countOf(device, push) > 1)).toEqual([]);
});
