import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import type { BatchDocument } from '../../packages/store/src/documents.ts';
import { createDevicePool } from '../support/faults/device-pool.ts';
import { countBatchStates, type SentPush, sendPush } from '../support/faults/pushes.ts';
import { createFleet, pendingPushesOf } from '../support/guarantees/devices.ts';
import { registerBrowser } from '../support/guarantees/register-browser.ts';
import { startStackWithoutLimits } from '../support/guarantees/start-unlimited.ts';
import { getPushStatus, untilNotPending } from '../support/guarantees/status.ts';
import { whileFrozen } from '../support/guarantees/while-frozen.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import type { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const WORKER = [{ service: 'delivery-worker' }];

let stack: Stack;
let mongo: TestMongo;
const fleet = createFleet(() => stack.dev);
beforeAll(async () => {
  stack = await startStackWithoutLimits();
  mongo = await openMongo(stack.dev);
});
afterEach(() => fleet.disconnectAll());
afterAll(async () => {
  await mongo?.close();
  await stack?.stop();
});

const idsAt = async (token: string) => (await pendingPushesOf(stack, token)).map(({ id }) => id);

/** Returns the results of both calls for a push and a device. */
async function isPendingInBoth(push: SentPush, token: string): Promise<[boolean, boolean]> {
  const [status, ids] = await Promise.all([getPushStatus(stack, push), idsAt(token)]);
  return [status.push?.pending_devices.includes(token) === true, ids.includes(push.id)];
}

/** Nothing is written meanwhile, and both call the device pending. */
async function expectBothPending(push: SentPush, token: string): Promise<void> {
  expect(await isPendingInBoth(push, token)).toEqual([true, true]);
  const inbox = mongo.db.collection('inbox');
  expect(await inbox.countDocuments({ push: push.id })).toBe(0);
}

function untilPendingInBoth(push: SentPush, token: string, expected: boolean): Promise<boolean> {
  return until(async () => (await isPendingInBoth(push, token)).every((one) => one === expected));
}

/** Does what the fan-out does before a worker claims a batch. */
async function releaseBatches({ id }: SentPush): Promise<void> {
  const batches = mongo.db.collection<BatchDocument>('batches');
  const ready = { 'work.state': 'ready', 'work.at': new Date() } as const;
  await batches.updateMany({ push: id, 'work.state': 'waiting' }, { $set: ready });
}

test('before a worker has claimed a push, and after', async () => {
  const online = await fleet.online();
  const offline = await fleet.offline();
  const push = await whileFrozen(stack, WORKER, async () => {
    const sent = await sendPush(stack, [online.token, offline.token]);
    for (const { token } of [online, offline]) await expectBothPending(sent, token);
    const [entry] = await pendingPushesOf(stack, offline.token);
    const { push: status } = await getPushStatus(stack, sent);
    const { date, expiration, payload } = status ?? {};
    expect(entry).toEqual({ id: sent.id, date, expiration, payload });
    return sent;
  });
  await untilPendingInBoth(push, online.token, false);
  expect(await isPendingInBoth(push, offline.token)).toEqual([true, true]);
  await offline.connect();
  await untilPendingInBoth(push, offline.token, false);
});

test('a push of several batches: while they wait, once they are released, and after', async () => {
  const pool = await createDevicePool(stack, mongo, { registered: 2_500, real: 0 });
  const tokens = pool.tokens.toSorted();
  // Not more than are listed.
  const some = [tokens[0] ?? '', tokens[500] ?? ''];
  const push = await whileFrozen(stack, WORKER, async () => {
    const sent = await sendPush(stack, pool.tokens);
    expect(await countBatchStates(mongo, sent)).toMatchObject({ waiting: 3, ready: 0 });
    for (const token of some) await expectBothPending(sent, token);
    await releaseBatches(sent);
    for (const token of some) await expectBothPending(sent, token);
    return sent;
  });
  await until(async () => (await countBatchStates(mongo, push)).closed === 3);
  for (const token of tokens.slice(0, 10)) expect(await idsAt(token)).toEqual([push.id]);
});

test('a push to a topic', async () => {
  const { token } = await fleet.offline();
  const topic = randomUUID();
  await stack.api('POST', '/topics/subscribe', { token, topics: [topic] });
  const push = await whileFrozen(stack, WORKER, async () => {
    const sent = await sendPush(stack, `/topics/${topic}`);
    await expectBothPending(sent, token);
    return sent;
  });
  expect(await isPendingInBoth(push, token)).toEqual([true, true]);
});

test('several pushes are listed in order, each once, in whichever document they are pending', async () => {
  const { token } = await fleet.offline();
  const first = await sendPush(stack, token);
  await until(async () => (await countBatchStates(mongo, first)).closed === 1);
  await whileFrozen(stack, WORKER, async () => {
    const sent = [first, await sendPush(stack, token), await sendPush(stack, token)];
    expect(await idsAt(token)).toEqual(sent.map(({ id }) => id));
  });
});

test('the newest push of a collapse key is listed', async () => {
  const { token } = await fleet.offline();
  await whileFrozen(stack, WORKER, async () => {
    await sendPush(stack, token, { collapse_key: 'one' });
    const other = await sendPush(stack, token, { collapse_key: 'two' });
    const newer = await sendPush(stack, token, { collapse_key: 'one' });
    expect(await idsAt(token)).toEqual([other.id, newer.id]);
  });
});

test('scheduled, deleted and expired pushes are not listed, nor are those for a browser', async () => {
  const { token } = await fleet.offline();
  const browser = await registerBrowser(stack.dev);
  await whileFrozen(stack, WORKER, async () => {
    const inAMinute = Math.floor(Date.now() / 1_000) + 60;
    await sendPush(stack, token, { schedule: inAMinute });
    const deleted = await sendPush(stack, token);
    await stack.api('DELETE', `/pushes/${deleted.id}`);
    await untilNotPending(stack, await sendPush(stack, token, { time_to_live: 1 }));
    const web = await sendPush(stack, browser.token);
    const last = await sendPush(stack, token);
    expect(await idsAt(token)).toEqual([last.id]);
    expect(await idsAt(browser.token)).toEqual([]);
    await stack.api('DELETE', `/pushes/${web.id}`);
  });
});

test('a push that moves from its batch into an inbox is missing from neither', async () => {
  const { tokens } = await createDevicePool(stack, mongo, { registered: 1_200, real: 0 });
  const last = tokens.toSorted().at(-1) ?? '';
  const missing: string[] = [];
  for (let round = 0; round < 20; round += 1) {
    const { token } = await fleet.offline();
    const watched = round % 2 === 0 ? token : last;
    const push = await sendPush(stack, round % 2 === 0 ? token : tokens);
    const isClosed = async () => (await countBatchStates(mongo, push)).closed > round % 2;
    const checkBoth = async () => {
      const isOver = await isClosed();
      if (!(await idsAt(watched)).includes(push.id)) missing.push(`device ${round}`);
      const { pending_devices: devices = [] } = (await getPushStatus(stack, push)).push ?? {};
      // Of more than a thousand some are listed.
      if (devices.length < 1_000 && !devices.includes(watched)) missing.push(`push ${round}`);
      return isOver;
    };
    await Promise.all([0, 1, 2].map(() => until(checkBoth, { everyMs: 0 })));
  }
  expect(missing).toEqual([]);
});
