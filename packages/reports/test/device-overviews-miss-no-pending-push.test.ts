import { batchId } from '@carillon/core/ids';
import type { Batch, BatchDocument, PushDocument } from '@carillon/store/documents';
import { beforeEach, expect, test } from '@jest/globals';
import { PARKED_AT } from '../../store/src/parked-batches.ts';
import {
  APP,
  anHourAgo,
  batch,
  embeddedBatch,
  inAnHour,
  insertDocuments,
  PUSH,
  push,
} from '../../store/test/document-fixtures.ts';
import { profile } from '../../store/test/store-under-test.ts';
import { useStore } from '../../store/test/use-store.ts';

const SEARCHED_PUSHES = 1_000;
/** Batches that are due later: more than keys of others that a search reads beside. */
const LATER = 30;

const server = useStore();
beforeEach(() => server.clear());

const find = (token: string, app = APP) => server.store.deviceOverviews.find(app, token);
const pendingPushes = async (token: string) =>
  [...((await find(token))?.pendingPushes ?? [])].sort();

async function insertDevice(token: string, fields: object = {}): Promise<void> {
  const at = anHourAgo();
  const device = { _id: token, app: APP, platform: 'electron', registeredAt: at, lastActiveAt: at };
  await insertDocuments(server.db, 'devices', { ...device, ...fields });
}

let sequence = 0;

async function insertBatch(fields: Partial<Batch>, other: Partial<BatchDocument>) {
  sequence += 1;
  const document = batch({ _id: batchId(PUSH, sequence), work: embeddedBatch(fields), ...other });
  await insertDocuments(server.db, 'batches', document);
}

async function insertEmbedded(fields: Partial<Batch>, other: Partial<PushDocument>) {
  await insertDocuments(server.db, 'pushes', push({ work: embeddedBatch(fields), ...other }));
}

test('a device has its topics, sorted, and the pushes of its inbox', async () => {
  await insertDevice('d', { uninstalled: true });
  const subscription = { token: 'd', platform: 'electron', since: anHourAgo() };
  await insertDocuments(
    server.db,
    'subscriptions',
    { _id: `${APP}:news:d`, ...subscription },
    { _id: `${APP}:alarms:d`, ...subscription, pending: 1 },
    { _id: `${APP}:left:d`, ...subscription, pending: -1 },
    { _id: `${APP}:leaving:d`, ...subscription, pending: -2 },
    { _id: `${APP}:news:e`, ...subscription, token: 'e' },
  );
  const row = { work: PUSH, position: 0 };
  await insertDocuments(
    server.db,
    'inbox',
    { _id: 'd:push1', push: 'push1', ...row },
    { _id: 'd:~hash', push: 'push2', ...row },
    { _id: 'd2:push3', push: 'push3', ...row },
  );
  expect(await find('d')).toEqual({
    device: expect.objectContaining({ _id: 'd', app: APP, uninstalled: true }),
    topics: ['alarms', 'news'],
    pendingPushes: new Set(['push1', 'push2']),
  });
});

test('an absent or deleted device, or one of another app, is not found', async () => {
  await insertDevice('d');
  await insertDevice('gone', { deletedAt: anHourAgo() });
  await insertEmbedded({ tokens: 'absent d gone' }, { _id: 'embedded' });
  await insertBatch({ tokens: 'absent d gone' }, { from: 'absent', to: 'gone' });
  expect(await find('absent')).toBeUndefined();
  expect(await find('gone')).toBeUndefined();
  expect(await find('d', 'other')).toBeUndefined();
});

/** Reads a device and returns the numbers of documents and keys that MongoDB examined. */
async function countExamined(token: string, expected: readonly string[]) {
  const search = async () => expect(await pendingPushes(token)).toEqual(expected);
  const searches = await profile(server, search, { 'command.aggregate': 'pushes' });
  expect(searches.at(-1)).not.toHaveProperty('hasSortStage');
  const { docsExamined, keysExamined } = searches.at(-1) ?? {};
  return { docsExamined: Number(docsExamined), keysExamined: Number(keysExamined) };
}

test('open batches are found through the indexes, and no batch of others is read', async () => {
  await insertDevice('d');
  const open = ['waiting', 'ready'] as const;
  const around = { tokens: 'c d e', from: 'c', to: 'e' };
  for (const state of open) {
    const { tokens, ...range } = around;
    await insertBatch({ state, tokens }, { ...range, push: state });
  }
  await insertEmbedded({ tokens: 'a d' }, { _id: 'embedded' });
  await insertEmbedded({ tokens: 'a d', at: PARKED_AT }, { _id: 'of its paused app' });
  await insertBatch(
    { tokens: around.tokens, at: PARKED_AT },
    { from: 'c', to: 'e', push: 'parked' },
  );
  const expected = ['embedded', 'of its paused app', 'parked', 'ready', 'waiting'];
  const before = await countExamined('d', expected);
  for (const state of open) {
    await insertBatch({ state, tokens: 'a b' }, { from: 'a', to: 'b' });
    await insertBatch({ state, tokens: 'f g' }, { from: 'f', to: 'g' });
    await insertBatch({ state, tokens: around.tokens }, { from: 'c', to: 'e', app: 'other' });
  }
  await insertBatch({ state: 'closed', tokens: around.tokens }, { from: 'c', to: 'e' });
  await insertEmbedded({ tokens: 'a d' }, { _id: 'of another app', app: 'other' });
  await insertEmbedded({ tokens: 'a d', at: PARKED_AT }, { _id: 'of a paused app', app: 'other' });
  const later = [...Array(LATER).keys()];
  for (const n of later)
    await insertEmbedded({ tokens: 'a d', at: inAnHour() }, { _id: `due ${n}` });
  const after = await countExamined('d', expected);
  expect(after.docsExamined).toBe(before.docsExamined);
  expect(after.keysExamined - before.keysExamined).toBeLessThan(LATER);
});

test('with more open batches than the search limit, as many of each form are found', async () => {
  await insertDevice('d');
  const numbers = [...Array(SEARCHED_PUSHES + 1).keys()];
  const work = embeddedBatch({ tokens: 'd' });
  await insertDocuments(server.db, 'pushes', ...numbers.map((n) => push({ _id: `e${n}`, work })));
  const own = numbers.map((n) =>
    batch({ _id: batchId(PUSH, n), push: `o${n}`, work, from: 'd', to: 'd' }),
  );
  await insertDocuments(server.db, 'batches', ...own);
  const found = await pendingPushes('d');
  expect(found.filter((id) => id.startsWith('e'))).toHaveLength(SEARCHED_PUSHES);
  expect(found.filter((id) => id.startsWith('o'))).toHaveLength(SEARCHED_PUSHES);
});

test('a push is not pending for a device that has acknowledged it or was deleted', async () => {
  for (const token of ['a', 'b', 'c']) await insertDevice(token);
  const ended = { got: { 0: 0b010 }, gone: { 0: 0b100 } };
  await insertBatch({ tokens: 'a b c', ...ended }, { from: 'a', to: 'c' });
  await insertEmbedded({ tokens: 'a b c', ...ended }, { _id: 'embedded' });
  expect(await pendingPushes('a')).toEqual([PUSH, 'embedded'].sort());
  for (const token of ['b', 'c']) expect(await pendingPushes(token)).toEqual([]);
});
