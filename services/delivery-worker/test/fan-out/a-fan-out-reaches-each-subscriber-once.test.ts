import { splitTokens } from '@carillon/core/batch';
import { BATCH_NUMBERS_PER_PAGE } from '@carillon/core/channels';
import { newPushId } from '@carillon/core/ids';
import { createProducers, type Producers } from '@carillon/queue/producers';
import { createBatchDocument } from '@carillon/store/create-batches';
import type { BatchDocument, PushDocument, SubscriptionDocument } from '@carillon/store/documents';
import type { ClaimedFanOut } from '@carillon/store/fan-outs';
import type { Subscriber } from '@carillon/store/subscriptions';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { startRedis } from '../../../../packages/presence/test/start-server.ts';
import {
  type StoreUnderTest,
  startStore,
} from '../../../../packages/store/test/store-under-test.ts';
import { fanOutStep, mergeSubscribers, pageTopics } from '../../src/fan-out/fan-out.ts';

const APP = '0123456789abcdef01234567';
const PAGE_SIZE = 1_000;
const SUBSCRIBERS = 2_700;
const BATCHES = 5;

let redis: Awaited<ReturnType<typeof startRedis>>;
let bench: StoreUnderTest;
let producers: Producers;
beforeAll(async () => {
  [bench, redis] = await Promise.all([startStore(), startRedis()]);
  producers = createProducers(redis, () => undefined);
  await subscribe('everybody', BATCHES * PAGE_SIZE, () => 'android');
  await subscribe('mixed', SUBSCRIBERS, (index) => ['android', 'ios', 'web'][index % 3] ?? '');
  const isAfterPage = (index: number) => index >= PAGE_SIZE;
  await subscribe('with-watches', SUBSCRIBERS, (n) => (isAfterPage(n) ? 'watch' : 'android'));
  await subscribe('channels-by-turns', SUBSCRIBERS, (n) => (n % 2 === 0 ? 'android' : 'watch'));
});
afterAll(async () => {
  await producers?.close();
  await redis?.stop();
  await bench?.stop();
});

const tokenAt = (index: number): string => `device${index.toString().padStart(6, '0')}`;

async function subscribe(topic: string, count: number, platformAt: (index: number) => string) {
  const rows = Array.from({ length: count }, (_, index) => {
    const token = tokenAt(index);
    return { _id: `${APP}:${topic}:${token}`, token, platform: platformAt(index) };
  });
  await bench.db.collection('subscriptions').insertMany(rows as never[]);
}

async function createFanOut(topic: string): Promise<string> {
  const _id = newPushId(Date.now());
  const fan = { at: new Date(0), seq: 0, next: 0, done: false };
  const push = { _id, app: APP, state: 'open', audience: { topics: [topic], tokens: '' }, fan };
  await bench.pushes.insertOne(push as unknown as PushDocument);
  return _id;
}

/** The app uses FCM for its Android devices. */
const getAppSettings = async () =>
  ({ fcm: 0, hasFcm: true, hasFcmNotification: false, isIosOverMqtt: false }) as const;
/** No device is connected. */
const presenceReader = {
  areOnline: async (tokens: readonly string[]) => tokens.map(() => false),
};

const makeDue = (push: string) =>
  bench.pushes.updateOne({ _id: push }, { $set: { 'fan.at': new Date(0) } });

async function* streamOf(tokens: readonly string[]): AsyncGenerator<Subscriber> {
  for (const token of tokens) yield { token, platform: 'android' };
}

test('merged topics return every subscriber once, sorted by token', async () => {
  const topic = fc
    .uniqueArray(fc.string({ minLength: 1, maxLength: 3 }))
    .map((list) => list.sort());
  await fc.assert(
    fc.asyncProperty(fc.array(topic, { maxLength: 6 }), async (topics) => {
      const merged: string[] = [];
      for await (const { token } of mergeSubscribers(topics.map(streamOf))) merged.push(token);
      expect(merged).toEqual([...new Set(topics.flat())].sort());
    }),
  );
});

/** Runs the next step, which is due at once. @returns the number of open batches after it */
async function step(push: string, maxOpenBatches: number): Promise<number> {
  await makeDue(push);
  const resources = { producers, getAppSettings, presenceReader, maxOpenBatches };
  await fanOutStep({ store: bench.store, ...resources }, push);
  return bench.batches.countDocuments({ push, 'work.state': 'ready' });
}

test('a push has at most the permitted open batches, and another one for each that is closed', async () => {
  const push = await createFanOut('everybody');
  expect(await step(push, 2)).toBe(2);
  expect(await step(push, 2)).toBe(2);
  const close = { $set: { 'work.state': 'done' } } as object;
  for (let closed = 1; closed <= BATCHES - 2; closed += 1) {
    await bench.batches.updateOne({ push, 'work.state': 'ready' }, close);
    expect(await step(push, 2)).toBe(2);
    expect(await bench.batches.countDocuments({ push })).toBe(2 + closed);
  }
});

test('a higher limit opens all batches at once; a lower one then opens none', async () => {
  const push = await createFanOut('everybody');
  expect(await step(push, 3)).toBe(3);
  expect(await step(push, 1)).toBe(3);
  expect(await step(push, BATCHES)).toBe(BATCHES);
});

/** Claims the fan-out of a push whose worker has died: its lease has ended. */
async function takeOver(push: string): Promise<ClaimedFanOut | undefined> {
  await makeDue(push);
  return bench.store.fanOuts.claim(push, 60_000);
}

/** Point at which a worker dies: the page is begun, its batches are stored, or the step has ended. */
type DiesAfter = 'begin' | 'insert' | 'end';

/** Processes the next page of a push and dies. */
type Worker = (push: string, diesAfter: DiesAfter) => Promise<void>;

/** Channel numbers of a newer release, which has a fifth channel, by the platform that it reaches. */
const FIVE_CHANNELS = { android: 0, ios: 1, web: 3, watch: 4 };

/** The pager of the newer release. */
const newerRelease: Worker = async (push, diesAfter) => {
  const { fanOuts, batches } = bench.store;
  const fanOut = await takeOver(push);
  if (fanOut === undefined) return;
  const { from = '', to, next } = fanOut.push.fan;
  const rows = await readPage(fanOut, from, to);
  if (rows.length === 0) return void (await fanOuts.endStep(fanOut, { done: true }));
  const page = { from, to: to ?? rows.at(-1)?.token ?? '', next };
  await fanOuts.beginPage(fanOut, page);
  if (diesAfter === 'begin') return;
  const created = Object.entries(FIVE_CHANNELS).flatMap(([platform, number]): BatchDocument[] => {
    const tokens = rows.filter((row) => row.platform === platform).map(({ token }) => token);
    const channel = platform as never;
    return tokens.length === 0
      ? []
      : [createBatchDocument(fanOut.push, channel, tokens, next + number, 'ready', new Date(0))];
  });
  await batches.insertIfAbsent(created);
  if (diesAfter === 'insert') return;
  const cursor = { from: page.to, next: next + BATCH_NUMBERS_PER_PAGE };
  await fanOuts.endStep(fanOut, { done: false, delayMs: 0, cursor });
};

function readPage({ push }: ClaimedFanOut, from: string, to: string | undefined) {
  const prefix = `${APP}:${push.audience?.topics[0]}:`;
  return bench.db
    .collection<SubscriptionDocument & { platform: string }>('subscriptions')
    .find({ _id: { $gt: `${prefix}${from}`, $lte: `${prefix}${to ?? '~'}` } })
    .sort({ _id: 1 })
    .limit(PAGE_SIZE)
    .toArray();
}

/** This release: the code that runs, one page of at most three batches at a time. */
const thisRelease: Worker = async (push, diesAfter) => {
  const { store } = bench;
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
  const { end, cursor } = await pageTopics(
    { store, producers, getAppSettings, presenceReader },
    fanOut,
    64,
    isFirstPage,
  );
  if (diesAfter === 'insert') return;
  const progress = cursor ? { cursor } : {};
  await store.fanOuts.endStep(
    fanOut,
    end === 'done' ? { ...progress, done: true } : { ...progress, done: false, delayMs: 0 },
  );
};

/** Runs the workers by turns until the fan-out is done, and expects it to have reached everybody once. */
async function expectFinished(push: string, workers: readonly Worker[]): Promise<void> {
  const isDone = async () => (await bench.pushes.findOne({ _id: push }))?.fan.done === true;
  for (let turn = 0; turn < 20 && !(await isDone()); turn += 1)
    await workers[turn % workers.length]?.(push, 'end');
  expect(await isDone()).toBe(true);
  const batches = await bench.batches.find({ push }).toArray();
  expect(batches.flatMap(({ work }) => splitTokens(work.tokens)).sort()).toEqual(
    Array.from({ length: SUBSCRIBERS }, (_, index) => tokenAt(index)),
  );
}

const POINTS: readonly DiesAfter[] = ['begin', 'insert', 'end'];

test.each(POINTS.flatMap((first) => POINTS.map((second) => [first, second] as const)))(
  'a worker continues where one died after %s, and another one after %s',
  async (first, second) => {
    const push = await createFanOut('mixed');
    await thisRelease(push, first);
    await thisRelease(push, second);
    await expectFinished(push, [thisRelease]);
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
      await expectFinished(push, [thisRelease, newerRelease]);
    }
  },
);

test('devices that change their ways between two tries of a page are in one batch each', async () => {
  const topic = 'phones';
  const count = 300;
  await subscribe(topic, count, () => 'android');
  const devices = bench.db.collection<{ _id: string; app: string; way: string }>('devices');
  const wayAt = (index: number) => (index % 3 === 0 ? 'fcm' : 'mqtt');
  await devices.insertMany(
    Array.from({ length: count }, (_, n) => ({ _id: tokenAt(n), app: APP, way: wayAt(n) })),
  );
  const push = await createFanOut(topic);
  const { store } = bench;
  const whenKilled = async () => Promise.reject(new Error('killed'));
  const killed = { ...store, batches: { ...store.batches, insertIfAbsent: whenKilled } };
  const tryPage = async (over: typeof store) => {
    const fanOut = await takeOver(push);
    if (fanOut === undefined) throw new Error('not due');
    const resources = { store: over, producers, getAppSettings, presenceReader };
    return pageTopics(resources, fanOut, 64, () => true);
  };
  await expect(tryPage(killed)).rejects.toThrow('killed');
  await devices.updateMany({ app: APP }, [
    { $set: { way: { $cond: [{ $eq: ['$way', 'fcm'] }, 'mqtt', 'fcm'] } } },
  ]);
  await tryPage(store);
  await devices.deleteMany({ app: APP });
  const batches = await bench.batches.find({ push }).toArray();
  const tokensOf = (channel: string) =>
    batches.flatMap(({ work }) => (work.channel === channel ? splitTokens(work.tokens) : []));
  const all = Array.from({ length: count }, (_, n) => n);
  const tokensWith = (way: string) => all.filter((n) => wayAt(n) === way).map(tokenAt);
  expect(tokensOf('fcm').sort()).toEqual(tokensWith('fcm'));
  expect(tokensOf('mqtt').sort()).toEqual(tokensWith('mqtt'));
});
