import { splitTokens } from '@carillon/core/batch';
import { BATCH_NUMBERS_PER_PAGE } from '@carillon/core/channels';
import { newPushId } from '@carillon/core/ids';
import { createProducers, type Producers } from '@carillon/queue/producers';
import { createBatchDocument } from '@carillon/store/create-batches';
import type { BatchDocument, PushDocument, SubscriptionDocument } from '@carillon/store/documents';
import type { ClaimedFanOut } from '@carillon/store/fan-outs';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type Db, MongoClient } from 'mongodb';
import { startRedis, type TestServer } from '../../../../packages/presence/test/start-server.ts';
import { startMongod } from '../../../../test/support/mongod-server.ts';
import { openStore, type TestStore } from '../../../../test/support/open-store.ts';
import { pageTopics } from '../../src/fan-out/fan-out.ts';

const APP = '0123456789abcdef01234567';
const PAGE_SIZE = 1_000;
const SUBSCRIBERS = 2_700;

let mongod: TestServer;
let redis: Awaited<ReturnType<typeof startRedis>>;
let client: MongoClient;
let db: Db;
let store: TestStore;
let producers: Producers;
beforeAll(async () => {
  [mongod, redis] = await Promise.all([startMongod(), startRedis()]);
  const uri = `mongodb://127.0.0.1:${mongod.port}/fan-out`;
  client = await new MongoClient(uri).connect();
  db = client.db();
  store = await openStore({ uri, appName: 'test' });
  await store.migrate();
  producers = createProducers(redis, () => undefined);
  await subscribe('mixed', (index) => ['android', 'ios', 'web'][index % 3] ?? '');
  await subscribe('with-watches', (index) => (index >= PAGE_SIZE ? 'watch' : 'android'));
  await subscribe('channels-by-turns', (index) => (index % 2 === 0 ? 'android' : 'watch'));
});
afterAll(async () => {
  await producers?.close();
  await store?.close();
  await client?.close();
  await redis?.stop();
  await mongod?.stop();
});

const tokenAt = (index: number): string => `device${index.toString().padStart(6, '0')}`;

async function subscribe(topic: string, platformAt: (index: number) => string): Promise<void> {
  const rows = Array.from({ length: SUBSCRIBERS }, (_, index) => ({
    _id: `${APP}:${topic}:${tokenAt(index)}`,
    token: tokenAt(index),
    platform: platformAt(index),
  }));
  await db.collection('subscriptions').insertMany(rows as never[]);
}

async function createFanOut(topic: string): Promise<string> {
  const _id = newPushId(Date.now());
  const fan = { at: new Date(0), seq: 0, next: 0, done: false };
  const push = { _id, app: APP, state: 'open', audience: { topics: [topic], tokens: '' }, fan };
  await db.collection<PushDocument>('pushes').insertOne(push as unknown as PushDocument);
  return _id;
}

/** Claims the fan-out of a push whose worker has died: its lease has ended. */
async function takeOver(push: string): Promise<ClaimedFanOut | undefined> {
  const pushes = db.collection<PushDocument>('pushes');
  await pushes.updateOne({ _id: push }, { $set: { 'fan.at': new Date(0) } });
  return store.fanOuts.claim(push, 60_000);
}

/** Point at which a worker dies: the page is begun, its batches are stored, or the step has ended. */
type DiesAfter = 'begin' | 'insert' | 'end';

/** Processes the next page of a push and dies. */
type Worker = (push: string, diesAfter: DiesAfter) => Promise<void>;

/** Channel numbers of a newer release, which has a fifth channel, by the platform that it reaches. */
const FIVE_CHANNELS = { android: 0, ios: 1, web: 3, watch: 4 };

/** The pager of the newer release. */
const newerRelease: Worker = async (push, diesAfter) => {
  const fanOut = await takeOver(push);
  if (fanOut === undefined) return;
  const { from = '', to, next } = fanOut.push.fan;
  const rows = await readPage(fanOut, from, to);
  if (rows.length === 0) return void (await store.fanOuts.endStep(fanOut, { done: true }));
  const page = { from, to: to ?? rows.at(-1)?.token ?? '', next };
  await store.fanOuts.beginPage(fanOut, page);
  if (diesAfter === 'begin') return;
  const batches = Object.entries(FIVE_CHANNELS).flatMap(([platform, number]): BatchDocument[] => {
    const tokens = rows.filter((row) => row.platform === platform).map(({ token }) => token);
    const channel = platform as never;
    return tokens.length === 0
      ? []
      : [createBatchDocument(fanOut.push, channel, tokens, next + number, 'ready', new Date(0))];
  });
  await store.batches.insertIfAbsent(batches);
  if (diesAfter === 'insert') return;
  const cursor = { from: page.to, next: next + BATCH_NUMBERS_PER_PAGE };
  await store.fanOuts.endStep(fanOut, { done: false, delayMs: 0, cursor });
};

function readPage({ push }: ClaimedFanOut, from: string, to: string | undefined) {
  const prefix = `${APP}:${push.audience?.topics[0]}:`;
  return db
    .collection<SubscriptionDocument & { platform: string }>('subscriptions')
    .find({ _id: { $gt: `${prefix}${from}`, $lte: `${prefix}${to ?? '~'}` } })
    .sort({ _id: 1 })
    .limit(PAGE_SIZE)
    .toArray();
}

/** This release: the code that runs, one page of at most three batches at a time. */
const thisRelease: Worker = async (push, diesAfter) => {
  const fanOut = await takeOver(push);
  if (fanOut === undefined) return;
  if (diesAfter === 'begin') {
    const { from = '', to, next } = fanOut.push.fan;
    const last = (await readPage(fanOut, from, to)).at(-1)?.token;
    if (last !== undefined) await store.fanOuts.beginPage(fanOut, { from, to: to ?? last, next });
    return;
  }
  let pages = 0;
  const isFirstPage = () => pages++ === 0;
  const { end, cursor } = await pageTopics({ store, producers }, fanOut, 64, isFirstPage);
  if (diesAfter === 'insert') return;
  const progress = cursor ? { cursor } : {};
  await store.fanOuts.endStep(
    fanOut,
    end === 'done' ? { ...progress, done: true } : { ...progress, done: false, delayMs: 0 },
  );
};

/** Runs both workers by turns until the fan-out is done. */
async function finish(push: string, workers: readonly Worker[]): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) {
    await workers[turn % workers.length]?.(push, 'end');
    const found = await db.collection<PushDocument>('pushes').findOne({ _id: push });
    if (found?.fan.done === true) return;
  }
  throw new Error('the fan-out is not done');
}

/** Tokens in the push's batches, sorted. */
async function readRecipients(push: string): Promise<string[]> {
  const batches = await db.collection<BatchDocument>('batches').find({ push }).toArray();
  return batches.flatMap(({ work }) => splitTokens(work.tokens)).sort();
}

const ALL_TOKENS = Array.from({ length: SUBSCRIBERS }, (_, index) => tokenAt(index));
const POINTS: readonly DiesAfter[] = ['begin', 'insert', 'end'];

test.each(POINTS.flatMap((first) => POINTS.map((second) => [first, second] as const)))(
  'a worker continues where one died after %s, and another one after %s',
  async (first, second) => {
    const push = await createFanOut('mixed');
    await thisRelease(push, first);
    await thisRelease(push, second);
    await finish(push, [thisRelease]);
    expect(await readRecipients(push)).toEqual(ALL_TOKENS);
  },
);

test.each(POINTS)(
  'a release with a fifth channel that dies after %s loses no recipient, and this one leaves its pages to it',
  async (dies) => {
    for (const topic of ['with-watches', 'channels-by-turns']) {
      const push = await createFanOut(topic);
      await newerRelease(push, dies);
      await thisRelease(push, 'end');
      await newerRelease(push, dies);
      await finish(push, [thisRelease, newerRelease]);
      expect(await readRecipients(push)).toEqual(ALL_TOKENS);
    }
  },
);
