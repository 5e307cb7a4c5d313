import { splitTokens } from '@carillon/core/batch';
import { batchId, newPushId } from '@carillon/core/ids';
import { createProducers, type Producers } from '@carillon/queue/producers';
import { createBatchDocument } from '@carillon/store/create-batches';
import type { BatchDocument, PushDocument, SubscriptionDocument } from '@carillon/store/documents';
import type { ClaimedFanOut } from '@carillon/store/fan-outs';
import { connectStore, type Store } from '@carillon/store/store';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type Db, MongoClient } from 'mongodb';
import { startRedis, type TestServer } from '../../../../packages/presence/test/start-server.ts';
import { startMongod } from '../../../../test/support/mongod-server.ts';
import { pageTopics } from '../../src/fan-out/fan-out.ts';

const APP = '0123456789abcdef01234567';
const PAGE_SIZE = 1_000;
const SUBSCRIBERS = 2_700;

let mongod: TestServer;
let redis: Awaited<ReturnType<typeof startRedis>>;
let client: MongoClient;
let db: Db;
let store: Store;
let producers: Producers;
beforeAll(async () => {
  [mongod, redis] = await Promise.all([startMongod(), startRedis()]);
  const uri = `mongodb://127.0.0.1:${mongod.port}/fan-out`;
  client = await new MongoClient(uri).connect();
  db = client.db();
  store = await connectStore({ uri, appName: 'test' });
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

/** The pager of a release with other channels and another stride, copied from it. */
function createOtherRelease(numbers: Record<string, number>, stride: number): Worker {
  return async (push, diesAfter) => {
    const fanOut = await takeOver(push);
    if (fanOut === undefined) return;
    const { from = '', to, next } = fanOut.push.fan;
    const rows = await readPage(fanOut, from, to);
    if (rows.length === 0) return void (await store.fanOuts.endStep(fanOut, { done: true }));
    const page = { from, to: to ?? rows.at(-1)?.token ?? '', next };
    await store.fanOuts.beginPage(fanOut, page);
    if (diesAfter === 'begin') return;
    const batches = Object.entries(numbers).flatMap(([platform, number]): BatchDocument[] => {
      const tokens = rows.filter((row) => row.platform === platform).map(({ token }) => token);
      const channel = platform as never;
      return tokens.length === 0
        ? []
        : [createBatchDocument(fanOut.push, channel, tokens, next + number, 'ready', new Date(0))];
    });
    await store.batches.insertIfAbsent(batches);
    if (diesAfter === 'insert') return;
    const cursor = { from: page.to, next: next + stride };
    await store.fanOuts.endStep(fanOut, { done: false, delayMs: 0, cursor });
  };
}

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
const FOUR_CHANNELS = { android: 0, ios: 1, web: 3 };

describe('a worker with the stride 4 and one with the stride 16 continue where the other died', () => {
  const olderRelease = createOtherRelease(FOUR_CHANNELS, 4);
  const steps = { older: olderRelease, this: thisRelease };
  const runs = (['older', 'this'] as const).flatMap((first) =>
    (['older', 'this'] as const).flatMap((second) =>
      POINTS.flatMap((dies) => POINTS.map((diesNext) => [first, dies, second, diesNext] as const)),
    ),
  );
  test.each(runs)('%s dies after %s, then %s after %s', async (first, dies, second, diesNext) => {
    const push = await createFanOut('mixed');
    await steps[first](push, dies);
    await steps[second](push, diesNext);
    const isOlderNext = second === 'this';
    await finish(push, isOlderNext ? [olderRelease, thisRelease] : [thisRelease, olderRelease]);
    expect(await readRecipients(push)).toEqual(ALL_TOKENS);
  });
});

test.each(POINTS)(
  'a release with a fifth channel that dies after %s loses no recipient, and this one leaves its pages to it',
  async (dies) => {
    const newerRelease = createOtherRelease({ ...FOUR_CHANNELS, watch: 4 }, 16);
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

test('a stride of as many numbers as a release has channels would lose batches', async () => {
  const fourChannels = createOtherRelease({ android: 0, watch: 3 }, 4);
  const fiveChannels = createOtherRelease({ android: 0, watch: 4 }, 5);
  const push = await createFanOut('channels-by-turns');
  await fiveChannels(push, 'insert');
  await fourChannels(push, 'end');
  await finish(push, [fourChannels]);
  expect(new Set(await readRecipients(push)).size).toBeLessThan(SUBSCRIBERS);
});

test('MongoDB sorts batches by their number beyond six digits', async () => {
  const push = newPushId(Date.now());
  const numbers = [0, 16, 999_999, 1_000_000, 1_000_016, 9_999_999, 10_000_000, 123_456_789];
  const batches = [...numbers]
    .reverse()
    .map((number) =>
      createBatchDocument({ _id: push, app: APP }, 'mqtt', ['t'], number, 'waiting', new Date(0)),
    );
  await store.batches.insertIfAbsent(batches);
  const { released } = await store.batches.release(push, numbers.length);
  expect(released.map(({ id }) => id)).toEqual(numbers.map((number) => batchId(push, number)));
});
