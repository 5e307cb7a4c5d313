import { newPushId } from '@carillon/core/ids';
import { failureCode, OUTCOMES } from '@carillon/core/outcomes';
import { createBatchDocument } from '@carillon/store/create-batches';
import type { PushDocument } from '@carillon/store/documents';
import { beforeEach, describe, expect, test } from '@jest/globals';
import {
  APP,
  acknowledge,
  complete,
  deliver,
  deliverToInboxes,
  expire,
  insertPush,
  newTokens,
  profile,
  SHAPES,
} from '../../store/test/store-under-test.ts';
import { useStore } from '../../store/test/use-store.ts';
import { createPushSearch, type PushQuery } from '../src/push-search.ts';

const REJECTED = failureCode('rejected-by-provider');
/** Batches whose outcomes one call reads. */
const MAX_COUNTED = 200;
const OTHER_APP = 'b'.repeat(24);

const database = useStore();
const { store } = database;
beforeEach(() => database.clear());

/** Reads all pages of a search. */
async function search(filter: Partial<PushQuery>): Promise<string[][]> {
  // The ids of these pushes are of the next seconds.
  const clock = { now: () => Date.now() + 60_000 };
  const pushSearch = createPushSearch(database.db, clock, store.pushesOfDevice);
  const pages: string[][] = [];
  let cursor: string | undefined;
  do {
    const page = await pushSearch.search({ app: APP, limit: 10, ...filter, cursor });
    pages.push(page.pushes.map(({ _id }) => _id));
    cursor = page.next;
  } while (cursor !== undefined);
  return pages;
}
const searchIds = async (filter: Partial<PushQuery>) => (await search(filter)).flat();

const set = (id: string, fields: Partial<PushDocument>) =>
  database.pushes.updateOne({ _id: id }, { $set: fields });

async function insertTo(topics: string[]): Promise<string> {
  const { id } = await insertPush(database, newTokens(1));
  await set(id, { topics });
  return id;
}

/** Returns how many documents the statements of a call on the batches have read. */
async function countReads(call: () => Promise<unknown>): Promise<number> {
  const entries = await profile(database, call, { ns: /\.batches$/ });
  return entries.reduce((sum, { docsExamined = 0 }) => sum + docsExamined, 0);
}

test('a topic selects the pushes whose requests have named it', async () => {
  const [news, both] = [await insertTo(['news']), await insertTo(['sports', 'news'])];
  await insertTo(['sports']);
  await insertPush(database, newTokens(1));
  expect(await searchIds({ topic: 'news' })).toEqual([both, news]);
  expect(await search({ topic: 'news', limit: 1 })).toEqual([[both], [news]]);
  expect(await searchIds({ topic: 'news', state: 'finished' })).toEqual([]);
  expect(await searchIds({ topic: 'nothing' })).toEqual([]);
  expect(await searchIds({ topic: 'news', app: OTHER_APP })).toEqual([]);
});

describe.each(SHAPES)('recipients %s:', (shape) => {
  const insert = (count = 2) => insertPush(database, newTokens(count), { shape });

  test('pushes with failed recipients are found while they are in delivery, and after', async () => {
    const [open, ended, sound] = [await insert(4), await insert(), await insert()];
    for (const push of [open, ended])
      await deliver(store, push, { [push.tokens[0] ?? '']: REJECTED });
    await deliver(store, sound, {});
    await complete(store, ended);
    expect((await database.pushes.findOne({ _id: ended.id }))?.state).toBe('finished');
    expect(await searchIds({ outcome: 'failed' })).toEqual([ended.id, open.id]);
    expect(await search({ outcome: 'failed', limit: 1 })).toEqual([[ended.id], [open.id]]);
    expect(await searchIds({ outcome: 'failed', state: 'open' })).toEqual([open.id]);
    expect(await searchIds({ outcome: 'failed', to: new Date(1) })).toEqual([]);
    expect(await searchIds({ outcome: 'failed', app: OTHER_APP })).toEqual([]);
  });

  test('pushes that have ended are found by the outcomes of their recipients', async () => {
    const [delivered, expired] = [await insert(), await insert()];
    await deliver(store, delivered, {});
    await deliverToInboxes(store, expired);
    expect(await searchIds({ outcome: 'expired' })).toEqual([]);
    await expire(database, expired);
    for (const push of [delivered, expired]) await complete(store, push);
    expect(await searchIds({ outcome: 'expired' })).toEqual([expired.id]);
    expect(await searchIds({ outcome: 'delivered' })).toEqual([delivered.id]);
  });

  test('a device selects its pushes, and an outcome those that ended like this for it', async () => {
    const [token = '', other = ''] = newTokens(2);
    const insertToBoth = () => insertPush(database, [token, other], { shape });
    const [first, second] = [await insertToBoth(), await insertToBoth()];
    await insert();
    await deliver(store, first, { [token]: REJECTED });
    await deliver(store, second, { [other]: REJECTED });
    await set(second.id, { topics: ['news'] });
    expect(await searchIds({ token })).toEqual([second.id, first.id]);
    expect((await search({ token, limit: 1 })).filter((page) => page.length > 0)).toEqual([
      [second.id],
      [first.id],
    ]);
    expect(await searchIds({ token, outcome: 'failed' })).toEqual([first.id]);
    expect(await searchIds({ token, topic: 'news' })).toEqual([second.id]);
    expect(await searchIds({ token, from: new Date(Date.now() + 50_000) })).toEqual([]);
    expect(await searchIds({ token, app: OTHER_APP })).toEqual([]);
    expect(await searchIds({ token: 'nobody' })).toEqual([]);
  });

  test('the progress of an open push counts its recipients, also those that connect late', async () => {
    const push = await insert(6);
    const [failed = '', late = ''] = push.tokens;
    const read = async () => (await store.pushProgress.readProgress([push.id])).get(push.id);
    expect(await read()).toEqual({ counts: { pending: 6 } });
    await deliver(store, push, { [failed]: REJECTED, [late]: OUTCOMES.inbox });
    expect(await read()).toEqual({ counts: { delivered: 4, failed: 1, inbox: 1 } });
    await acknowledge(database, push, late);
    expect(await read()).toEqual({ counts: { delivered: 5, failed: 1 } });
  });
});

test('50 open pushes of 100 batches each have their progress, and few of their batches are read', async () => {
  const at = new Date();
  const template = await insertPush(database, newTokens(1), { shape: 'in two batches' });
  const { _id, ...fields } = (await database.pushes.findOne({ _id: template.id })) ?? {};
  expect(_id).toBe(template.id);
  const pushes = Array.from({ length: 50 }, (_, n) => {
    return { ...fields, _id: newPushId(at.getTime() + n), devices: 100 } as PushDocument;
  });
  const batches = pushes.flatMap((push) =>
    Array.from({ length: 100 }, (_, n) =>
      createBatchDocument(push, 'mqtt', [`d${n}`], n, 'ready', at),
    ),
  );
  await database.pushes.insertMany(pushes);
  await database.batches.insertMany(batches);
  const closed = { _id: /-0000[0-3]/ };
  await database.batches.updateMany(closed, { $set: { 'work.state': 'closed' } });
  const ids = pushes.map((push) => push._id);
  let progress = new Map();
  const reads = await countReads(async () => {
    progress = await store.pushProgress.readProgress(ids);
  });
  expect(reads).toBe(MAX_COUNTED);
  const shown = ids.map((id) => progress.get(id));
  expect(shown.slice(0, 2)).toEqual(
    Array.from({ length: 2 }, () => ({ counts: { pending: 100 } })),
  );
  expect(shown.slice(2)).toEqual(
    Array.from({ length: 48 }, () => ({ batches: { total: 100, open: 60 } })),
  );
});

test.each<[string, object, string | undefined]>([
  ['the notification', { options: { notification: { title: 'Rolls', body: 'Hot' } } }, 'Rolls'],
  ['the payload', { data: '{"title":"Rolls","message":"Hot"}' }, 'Rolls'],
  ['the message of the payload', { data: '{"title":7,"message":" Hot "}' }, 'Hot'],
  ['the body', { options: { notification: { body: 'Hot' } } }, 'Hot'],
  ['a long text', { data: `{"title":"${'🥖'.repeat(90)}"}` }, `${'🥖'.repeat(79)}…`],
  ['no text', { data: '{"secret":"x"}' }, undefined],
  ['a JSON string', { data: '"title"' }, undefined],
  ['a payload of a megabyte', { data: `{"title":"${'x'.repeat(1_000_000)}"}` }, undefined],
])('the title of a push is of %s', async (_name, fields, title) => {
  const { id } = await insertPush(database, newTokens(1));
  await set(id, fields);
  expect((await store.pushTitles.read([id])).get(id)).toBe(title);
});
