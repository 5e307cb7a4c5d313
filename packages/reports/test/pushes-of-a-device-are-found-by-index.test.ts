import { hashToken } from '@carillon/core/batch';
import { fallbackBatchId, newPushId } from '@carillon/core/ids';
import { OUTCOMES } from '@carillon/core/outcomes';
import { createBatch, createEmbeddedBatch } from '@carillon/store/create-batches';
import type { PushDocument } from '@carillon/store/documents';
import { beforeEach, expect, test } from '@jest/globals';
import { Binary } from 'mongodb';
import {
  APP,
  deliver,
  deliverToInboxes,
  insertPush,
  newTokens,
  profile,
  SHAPES,
} from '../../store/test/store-under-test.ts';
import { useStore } from '../../store/test/use-store.ts';

/** Two tokens with one hash. */
const [TWIN, OTHER_TWIN] = ['adcbe4cb8d8992170e80bb', '45e788d5e6c77e337a21fe'] as const;

const database = useStore();
const { store } = database;
beforeEach(() => database.clear());

const list = (token: string, query: { before?: string; limit?: number; app?: string } = {}) =>
  store.pushesOfDevice.list({ app: APP, token, before: 'g', limit: 100, ...query });

async function listIds(...args: Parameters<typeof list>): Promise<string[]> {
  return (await list(...args)).pushes.map(({ push }) => push._id);
}

/** Inserts finished pushes to one device each, the newest last; more of them than is sensible to insert one by one. */
async function insertMany(tokens: readonly string[]): Promise<void> {
  const at = new Date();
  const pushes = tokens.map((token, n): PushDocument => {
    return {
      ...{ _id: newPushId(at.getTime() + n), app: APP, state: 'finished', acceptedAt: at },
      ...{ expiresAt: at, sendUntil: at, data: '{}', devices: 1 },
      fan: { seq: 0, next: 0, done: true },
      ...createEmbeddedBatch('mqtt', [token], 'closed', at),
    };
  });
  await database.pushes.insertMany(pushes);
}

test('a page reads only pushes of the device, however many others are newer', async () => {
  const [token = '', ...others] = newTokens(1_201);
  const embedded = await insertPush(database, [token, ...newTokens(1)]);
  const own = await insertPush(database, [token, ...newTokens(1)], { shape: 'in two batches' });
  await insertMany(others);
  const find = async () => expect(await listIds(token)).toEqual([own.id, embedded.id]);
  const reads = await profile(database, find, { op: 'query', ns: /\.(pushes|batches)$/ });
  const examined = (ns: RegExp) =>
    reads.filter((one) => ns.test(one.ns)).map(({ docsExamined }) => docsExamined);
  // To find, to read the heads, and to read the outcomes.
  expect(examined(/pushes$/).sort()).toEqual([1, 1, 2]);
  expect(examined(/batches$/).sort()).toEqual([1, 1]);
});

test.each(SHAPES)('pages follow each other without a gap or a repetition, %s', async (shape) => {
  const [token = ''] = newTokens(1);
  const ids: string[] = [];
  for (let n = 0; n < 5; n += 1)
    ids.unshift((await insertPush(database, [token, ...newTokens(2)], { shape })).id);
  // Pushes of both kinds are in one order.
  ids.unshift((await insertPush(database, [token])).id);
  const pages: string[][] = [];
  for (let before: string | undefined = 'g'; before !== undefined; ) {
    const page = await list(token, { before, limit: 2 });
    pages.push(page.pushes.map(({ push }) => push._id));
    before = page.next;
  }
  expect(pages).toEqual([ids.slice(0, 2), ids.slice(2, 4), ids.slice(4), []]);
});

test.each(SHAPES)('two devices with the same hash have their own pushes, %s', async (shape) => {
  expect(hashToken(TWIN)).toBe(hashToken(OTHER_TWIN));
  const own = await insertPush(database, [TWIN, 'x'], { shape });
  const foreign = await insertPush(database, [OTHER_TWIN, 'x'], { shape });
  const both = await insertPush(database, [TWIN, OTHER_TWIN], { shape });
  await deliver(store, both, { [TWIN]: OUTCOMES.gone });
  expect(await listIds(TWIN)).toEqual([both.id, own.id]);
  expect(await listIds(OTHER_TWIN)).toEqual([both.id, foreign.id]);
  const outcomeOf = async (token: string) => (await list(token)).pushes[0]?.recipient.outcome;
  expect([await outcomeOf(TWIN), await outcomeOf(OTHER_TWIN)]).toEqual(['gone', 'delivered']);
  // A token that is part of another is not in the batch.
  expect(await listIds(TWIN.slice(1))).toEqual([]);
});

test('pushes of another app, or that are not accepted or about to be removed, are left out', async () => {
  const [token = ''] = newTokens(1);
  const shown = await insertPush(database, [token]);
  const waiting = await insertPush(database, [token], { shape: 'in two batches' });
  await database.pushes.updateOne({ _id: waiting.id }, { $set: { state: 'scheduled' } });
  await database.batches.updateMany({ push: waiting.id }, { $set: { 'work.state': 'waiting' } });
  const past = new Date(Date.now() - 1_000);
  for (const fields of [{ state: 'accepting' }, { app: 'other' }, { purgeAt: past }]) {
    const { id } = await insertPush(database, [token]);
    await database.pushes.updateOne({ _id: id }, { $set: fields as object });
  }
  const { pushes } = await list(token);
  expect(pushes.map(({ push, status }) => [push._id, push.state, status.outcome])).toEqual([
    [waiting.id, 'scheduled', 'pending'],
    [shown.id, 'open', 'pending'],
  ]);
  expect(await listIds(token, { app: 'other' })).toHaveLength(1);
});

test.each(SHAPES)(
  'a push has the attempts of its fallback, and is listed once, %s',
  async (shape) => {
    const push = await insertPush(database, newTokens(2), { shape });
    await deliverToInboxes(store, push);
    const [token = ''] = push.tokens;
    const [of = ''] = push.batchIds;
    const sent = { outcomes: new Binary(Uint8Array.of(OUTCOMES.sent)), fallback: true } as const;
    await database.batches.insertOne({
      ...{ _id: fallbackBatchId(of), push: push.id, app: APP, from: token, to: token },
      work: { ...createBatch('fcm', [token], 'closed', new Date()), ...sent },
    });
    const { pushes } = await list(token);
    expect(pushes.map(({ recipient }) => recipient.attempts)).toEqual([
      [
        { channel: 'mqtt', outcome: 'pending' },
        { channel: 'fcm', outcome: 'sent' },
      ],
    ]);
  },
);
