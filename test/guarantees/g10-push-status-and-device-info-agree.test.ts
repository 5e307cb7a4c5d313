import { randomUUID } from 'node:crypto';
import { expect, test } from '@jest/globals';
import type { BatchDocument, PushDocument } from '../../packages/store/src/documents.ts';
import { createDevicePool } from '../support/faults/device-pool.ts';
import {
  countBatchStates,
  expectPartlyClosed,
  pushStatusOf,
  type SentPush,
  sendPush,
  untilOutcomes,
  untilPartlyClosed,
} from '../support/faults/pushes.ts';
import { pendingPushesOf } from '../support/guarantees/devices.ts';
import { lendTo } from '../support/guarantees/lend-to.ts';
import { registerBrowser } from '../support/guarantees/register-browser.ts';
import { makeDue, sendTomorrow } from '../support/guarantees/schedule.ts';
import { getPushStatus, untilNotPending, untilPending } from '../support/guarantees/status.ts';
import { bothOf, whileFrozen } from '../support/guarantees/while-frozen.ts';
import type { TestMongo } from '../support/mongo.ts';
import { useKillableStack } from '../support/shared-stack.ts';
import type { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const RETENTION_MS = 172_800_000;
const MOST_LISTED = 1_000;
const WORKERS = bothOf('delivery-worker');

let stack: Stack;
let mongo: TestMongo;
const fleet = lendTo(
  () => useKillableStack(),
  (...lent) => {
    [stack, mongo] = lent;
  },
);

const idsAt = async (token: string) => (await pendingPushesOf(stack, token)).map(({ id }) => id);

async function pendingDevicesOf(push: SentPush): Promise<string[]> {
  return (await getPushStatus(stack, push)).push?.pending_devices.toSorted() ?? [];
}

/** Returns the results of both calls for a push and a device. */
async function isPendingInBoth(push: SentPush, token: string): Promise<[boolean, boolean]> {
  const [devices, ids] = await Promise.all([pendingDevicesOf(push), idsAt(token)]);
  return [devices.includes(token), ids.includes(push.id)];
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
  const tokens = [online.token, offline.token].toSorted();
  const push = await whileFrozen(stack, WORKERS, async () => {
    const sent = await sendPush(stack, tokens);
    for (const token of tokens) await expectBothPending(sent, token);
    const [entry] = await pendingPushesOf(stack, offline.token);
    const { push: status } = await getPushStatus(stack, sent);
    const { date, expiration, payload } = status ?? {};
    expect(entry).toEqual({ id: sent.id, date, expiration, payload });
    expect(await pendingDevicesOf(sent)).toEqual(tokens);
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
  const push = await whileFrozen(stack, WORKERS, async () => {
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

test('devices of closed and of open batches are in one list', async () => {
  const subscriber = await fleet.offline();
  const holder = await fleet.online();
  holder.holdReceipts();
  const topic = randomUUID();
  await stack.api('POST', '/topics/subscribe', { token: subscriber.token, topics: [topic] });
  // The subscribers are resolved when it is due: they and the other device are in two batches.
  const push = await sendTomorrow(stack, [`/topics/${topic}`, holder.token]);
  await makeDue(mongo, [push]);
  await untilPartlyClosed(mongo, push);
  await whileFrozen(stack, WORKERS, async () => {
    await expectPartlyClosed(mongo, push);
    expect(await pendingDevicesOf(push)).toEqual([subscriber.token, holder.token].toSorted());
  });
  holder.releaseReceipts();
  await untilPending(stack, push, [subscriber.token]);
});

test('of a large push 1,000 are listed, from the inbox and from open batches', async () => {
  const pool = await createDevicePool(stack, mongo, { registered: 5_000, real: 0 });
  const known = new Set(pool.tokens);
  const push = await whileFrozen(stack, WORKERS, () => sendPush(stack, pool.tokens));
  const listed: string[][] = [];
  const isSettled = async () => {
    listed.push(await pendingDevicesOf(push));
    return (await pushStatusOf(mongo, push)).outcomes.inbox === 5_000;
  };
  await until(isSettled, { everyMs: 1 });
  for (const tokens of listed) {
    expect(new Set(tokens).size).toBe(MOST_LISTED);
    expect(tokens.filter((token) => !known.has(token))).toEqual([]);
  }
});

test('each receipt removes its device from the list', async () => {
  const [one, two, three] = await fleet.createMany(3, 'offline');
  const tokens = [one, two, three].map((device) => device?.token ?? '');
  const push = await sendPush(stack, tokens);
  await untilPending(stack, push, tokens);
  await two?.connect();
  await untilPending(stack, push, [one?.token ?? '', three?.token ?? '']);
  one?.holdReceipts();
  await one?.connect();
  await one?.waitFor(1);
  expect(await pendingDevicesOf(push)).toContain(one?.token);
  one?.releaseReceipts();
  await untilPending(stack, push, [three?.token ?? '']);
});

test('android, electron and python devices are tracked, subscribed to a topic or not', async () => {
  const platforms = ['android', 'electron', 'python'];
  const devices = await Promise.all(platforms.map((platform) => fleet.offline(platform)));
  const tokens = devices.map(({ token }) => token);
  const topic = randomUUID();
  for (const token of tokens)
    await stack.api('POST', '/topics/subscribe', { token, topics: [topic] });
  for (const to of [tokens, `/topics/${topic}`]) {
    const push = await whileFrozen(stack, WORKERS, async () => {
      const sent = await sendPush(stack, to);
      for (const token of tokens) await expectBothPending(sent, token);
      return sent;
    });
    await untilOutcomes(mongo, push, { inbox: 3 });
    for (const token of tokens) expect(await isPendingInBoth(push, token)).toEqual([true, true]);
  }
});

test('several pushes are listed in order, each once, in whichever document they are pending', async () => {
  const { token } = await fleet.offline();
  const first = await sendPush(stack, token);
  await until(async () => (await countBatchStates(mongo, first)).closed === 1);
  await whileFrozen(stack, WORKERS, async () => {
    const sent = [first, await sendPush(stack, token), await sendPush(stack, token)];
    expect(await idsAt(token)).toEqual(sent.map(({ id }) => id));
  });
});

test('the newest push of a collapse key is listed', async () => {
  const { token } = await fleet.offline();
  await whileFrozen(stack, WORKERS, async () => {
    await sendPush(stack, token, { collapse_key: 'one' });
    const other = await sendPush(stack, token, { collapse_key: 'two' });
    const newer = await sendPush(stack, token, { collapse_key: 'one' });
    expect(await idsAt(token)).toEqual([other.id, newer.id]);
  });
});

test('scheduled, deleted and expired pushes are not listed, nor are browsers', async () => {
  const { token } = await fleet.offline();
  const browser = await registerBrowser(stack.dev);
  const web = await whileFrozen(stack, WORKERS, async () => {
    await sendTomorrow(stack, token);
    const deleted = await sendPush(stack, token);
    await stack.api('DELETE', `/pushes/${deleted.id}`);
    await untilNotPending(stack, await sendPush(stack, token, { time_to_live: 1 }));
    const last = await sendPush(stack, [browser.token, token]);
    expect(last.devices).toBe(2);
    expect(await pendingDevicesOf(last)).toEqual([token]);
    expect([await idsAt(token), await idsAt(browser.token)]).toEqual([[last.id], []]);
    // Before a worker could call a browser's push service, which is outside.
    await stack.api('DELETE', `/pushes/${last.id}`);
    return last;
  });
  await untilOutcomes(mongo, web, { deleted: 2 });
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
      const devices = await pendingDevicesOf(push);
      // Of more than a thousand some are listed.
      if (devices.length < MOST_LISTED && !devices.includes(watched)) missing.push(`push ${round}`);
      return isOver;
    };
    await Promise.all([0, 1, 2].map(() => until(checkBoth, { everyMs: 0 })));
  }
  expect(missing).toEqual([]);
});

test('a push delivered to all has its status until the retention is over', async () => {
  const device = await fleet.online();
  const push = await sendPush(stack, device.token);
  await until(async () => (await pushStatusOf(mongo, push)).state === 'finished');
  expect((await pushStatusOf(mongo, push)).outcomes).toEqual({ delivered: 1 });
  const finishEarlier = async (byMs: number) => {
    const finishedAt = new Date(Date.now() - byMs);
    const pushes = mongo.db.collection<PushDocument>('pushes');
    await pushes.updateOne({ _id: push.id }, { $set: { finishedAt } });
  };
  await finishEarlier(RETENTION_MS - 600_000);
  expect((await getPushStatus(stack, push)).push?.pending_devices).toEqual([]);
  await finishEarlier(RETENTION_MS);
  await untilNotPending(stack, push);
  expect((await stack.api('DELETE', `/pushes/${push.id}`)).json.code).toBe('INVALID_PUSH_ID');
});
