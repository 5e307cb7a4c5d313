import { hashToken } from '@carillon/core/batch';
import { fallbackBatchId, newPushId } from '@carillon/core/ids';
import { OUTCOMES } from '@carillon/core/outcomes';
import {
  createBatchDocument,
  createEmbeddedBatch,
  MAX_HASHED_RECIPIENTS,
} from '@carillon/store/create-batches';
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

/** Inserts finished pushes, the newest last; more of them than is sensible to insert one by one. */
async function insertMany(recipients: readonly string[][]): Promise<string[]> {
  const at = new Date(Date.now() + 60_000);
  const pushes = recipients.map((tokens, n): PushDocument => {
    return {
      ...{ _id: newPushId(at.getTime() + n), app: APP, state: 'finished', acceptedAt: at },
      ...{ expiresAt: at, sendUntil: at, data: '{}', devices: tokens.length },
      fan: { seq: 0, next: 0, done: true },
      ...createEmbeddedBatch('mqtt', tokens, 'closed', at),
    };
  });
  await database.pushes.insertMany(pushes);
  return pushes.map(({ _id }) => _id);
}

/** Returns tokens of a batch without hashes, whose range includes every token of `newTokens`. */
function newNeighbours(): string[] {
  const [first = '', ...rest] = newTokens(MAX_HASHED_RECIPIENTS + 1);
  return [...rest, `a${first}`, `z${first}`];
}

async function readPages(token: string, limit: number): Promise<string[][]> {
  const pages: string[][] = [];
  for (let before: string | undefined = 'g'; before !== undefined; ) {
    const page = await list(token, { before, limit });
    pages.push(page.pushes.map(({ push }) => push._id));
    before = page.next;
  }
  return pages;
}

test('a page reads only pushes of the device, however many others are newer', async () => {
  const [token = '', ...others] = newTokens(1_201);
  const embedded = await insertPush(database, [token, ...newTokens(1)]);
  const own = await insertPush(database, [token, ...newTokens(1)], { shape: 'in two batches' });
  await insertMany(others.map((one) => [one]));
  const find = async () => expect(await listIds(token)).toEqual([own.id, embedded.id]);
  const reads = await profile(database, find, { op: 'query', ns: /\.(pushes|batches)$/ });
  const examined = (ns: RegExp) =>
    reads.filter((one) => ns.test(one.ns)).map(({ docsExamined }) => docsExamined);
  // To find, among few and many recipients, of which there may be many, to read the outcomes, and to read the heads.
  expect(examined(/pushes$/).sort()).toEqual([0, 0, 1, 1, 2]);
  // To find, to read the outcomes, and to read the fallbacks.
  expect(examined(/batches$/).sort()).toEqual([0, 0, 0, 1, 1]);
});

test.each(SHAPES)('pages follow each other without a gap or a repetition, %s', async (shape) => {
  const [token = ''] = newTokens(1);
  const ids: string[] = [];
  for (let n = 0; n < 5; n += 1)
    ids.unshift((await insertPush(database, [token, ...newTokens(2)], { shape })).id);
  // Pushes of both kinds are in one order.
  ids.unshift((await insertPush(database, [token])).id);
  expect(await readPages(token, 2)).toEqual([ids.slice(0, 2), ids.slice(2, 4), ids.slice(4), []]);
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
      work: { ...createEmbeddedBatch('fcm', [token], 'closed', new Date()).work, ...sent },
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

test.each(SHAPES)('a device is found among many recipients by index keys, %s', async (shape) => {
  const tokens = newTokens(2 * MAX_HASHED_RECIPIENTS + 2);
  const push = await insertPush(database, tokens, { shape });
  await insertPush(database, newNeighbours(), { shape: 'in two batches' });
  await insertMany([newNeighbours()]);
  for (const token of [tokens[0], tokens[MAX_HASHED_RECIPIENTS], tokens.at(-1)])
    expect(await listIds(token ?? '')).toEqual([push.id]);
  const find = () => listIds(tokens[1] ?? '');
  const reads = await profile(database, find, { 'command.filter.firstToken': { $exists: true } });
  expect(reads.map(({ docsExamined }) => docsExamined)).toEqual([0, 0, 0, 0]);
  expect(
    await database.batches.countDocuments({ tokenHashes: { $size: MAX_HASHED_RECIPIENTS + 1 } }),
  ).toBe(0);
  // A token that is part of another, or between two others, is not in the batch.
  expect(await listIds(`${tokens[1]}0`)).toEqual([]);
  expect(await listIds(tokens[1] ?? '', { app: 'other' })).toEqual([]);
});

test('pushes to few and to many recipients are in one order', async () => {
  const [token = ''] = newTokens(1);
  const ids: string[] = [];
  for (let n = 0; n < 12; n += 1) {
    const many = n % 2 === 0 ? [token] : [token, ...newNeighbours()];
    const shape = n % 3 === 0 ? 'in two batches' : 'in the push';
    // The device is in one of two batches, some of which are small.
    const two = [...newTokens(MAX_HASHED_RECIPIENTS), ...many];
    ids.unshift((await insertPush(database, shape === 'in the push' ? many : two, { shape })).id);
    await insertPush(database, newNeighbours(), { shape });
  }
  for (const limit of [1, 2, 5, 12, 100])
    expect((await readPages(token, limit)).flat()).toEqual(ids);
  expect(await readPages(token, 5)).toEqual([ids.slice(0, 5), ids.slice(5, 10), ids.slice(10)]);
});

test('a push is listed once if a page of a read ends among its batches', async () => {
  const [token = ''] = newTokens(1);
  const ids: string[] = [];
  for (let n = 0; n < 40; n += 1) {
    const { id: _id } = await insertPush(database, [token, ...newNeighbours()]);
    // Fan-outs make a batch for each channel, whose ranges overlap.
    await database.pushes.updateOne({ _id }, { $unset: { work: true, firstToken: true } });
    const holder = n % 5;
    await database.batches.insertMany(
      [0, 1, 2, 3, 4].map((number) => {
        const tokens = [...newNeighbours(), ...(number === holder ? [token] : [])].sort();
        return createBatchDocument({ _id, app: APP }, 'mqtt', tokens, number, 'ready', new Date());
      }),
    );
    ids.unshift(_id);
  }
  expect(await listIds(token)).toEqual(ids);
  expect((await readPages(token, 7)).flat()).toEqual(ids);
});

test('a page searches at most a thousand large batches, and the next one goes on', async () => {
  const [token = ''] = newTokens(1);
  const tokens = newNeighbours();
  const small = await insertPush(database, [token]);
  const large = await insertPush(database, [token, ...tokens]);
  const filler = Array.from({ length: 1_500 }, () => tokens);
  const ids = await insertMany([...filler, [token], ...filler, [token]]);
  const newest = ids.at(-1);
  expect(await readPages(token, 100)).toEqual([[newest], [ids[1_500]], [], [large.id, small.id]]);
  expect(await readPages(token, 1)).toEqual([
    ...[[newest], [], [ids[1_500]], [], [large.id], [small.id], []],
  ]);
});

test('a page compares the ranges of at most twenty thousand large batches, and the next one goes on', async () => {
  const [token = '', ...elsewhere] = newTokens(2 * MAX_HASHED_RECIPIENTS).sort();
  const large = await insertPush(database, newNeighbours().concat(token));
  await insertMany(Array.from({ length: 20_000 }, () => elsewhere));
  expect(await readPages(token, 100)).toEqual([[], [large.id]]);
});
