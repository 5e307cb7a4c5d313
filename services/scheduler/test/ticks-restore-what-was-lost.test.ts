import type { Channel } from '@carillon/core/channels';
import { newObjectId, newPushId, pushStartMs } from '@carillon/core/ids';
import { connectRedis, type Redis } from '@carillon/presence/redis';
import { deliverJobId, redriveJobId, resendJobId } from '@carillon/queue/jobs';
import { createProducers, type Producers } from '@carillon/queue/producers';
import { queueKey } from '@carillon/queue/queue-keys';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { startRedis } from '../../../packages/presence/test/start-server.ts';
import { createOpenTelemetry } from '../../../packages/runtime/src/opentelemetry.ts';
import { createBatchDocument } from '../../../packages/store/src/create-batches.ts';
import { type StoreUnderTest, startStore } from '../../../packages/store/test/store-under-test.ts';
import {
  type OtlpReceiver,
  type ReceivedSpan,
  startOtlpReceiver,
} from '../../../test/support/traces/otlp-receiver.ts';
import { until } from '../../../test/support/until.ts';
import { createClean } from '../src/clean.ts';
import { reconcile } from '../src/reconcile.ts';

const APP = newObjectId();
const TOKEN = 'c'.repeat(22);
const HOUR_MS = 3_600_000;
/** More devices than a page. */
const ENDED = 130;
const FORMERS = 150;

let server: Awaited<ReturnType<typeof startRedis>>;
let redis: Redis;
let bench: StoreUnderTest;
let producers: Producers;
beforeAll(async () => {
  [server, bench] = await Promise.all([startRedis(), startStore()]);
  redis = await connectRedis(server);
  producers = createProducers(server, () => undefined);
  await until(async () => (await producers.countDue('send').catch(() => -1)) === 0);
});
afterAll(async () => {
  await producers?.close();
  redis?.disconnect();
  await bench?.stop();
  await server?.stop();
});
beforeEach(async () => {
  await redis.flushall();
  await bench.clear();
});

interface InsertOptions {
  agoMs?: number;
  tries?: number;
  isScheduled?: boolean;
  channel?: Channel;
  trace?: string;
  app?: string;
}

/** Stores a push with an embedded batch that is due, and no job. Returns its id. */
async function insertPush(options: InsertOptions = {}): Promise<string> {
  const { agoMs = 60_000, tries = 0, isScheduled = false, channel = 'mqtt' } = options;
  const { app = APP, trace } = options;
  const now = Math.floor(bench.store.clock.now());
  const at = new Date(now - agoMs);
  const expiresAt = new Date(now + 60_000);
  const _id = newPushId(at.getTime());
  await bench.store.pushes.insert({
    ...{ _id, app, state: isScheduled ? 'scheduled' : 'open', acceptedAt: at },
    ...(isScheduled && { dueAt: at }),
    ...(trace !== undefined && { trace: `00-${trace}-${SPAN}-01` }),
    ...{ expiresAt, sendUntil: expiresAt, data: '{}', audience: { topics: [], tokens: '' } },
    ...{ devices: 1, fan: { seq: 0, next: 1, done: true } },
    work: { state: 'ready', channel, at, tries, n: 1, tokens: TOKEN },
  });
  return _id;
}

/** Lists the waiting jobs, the first to be taken first. */
const listJobs = async (queue: 'send' | 'deliver-apns' | 'redrive') =>
  (await redis.lrange(queueKey(redis, queue, 'wait'), 0, -1)).reverse();

describe('a push without a job', () => {
  /** Runs a tick at a time by its clock. Returns how many batches got a job. */
  const tickAt = async (nowMs: number) => {
    const clock = { ...bench.store.clock, now: () => nowMs };
    return (await reconcile({ ...bench.store, clock }, producers)).works;
  };
  const jobIdOf = (push: string) => resendJobId(push, new Date(pushStartMs(push)));

  test('that no worker has claimed gets one three seconds after it was accepted', async () => {
    const push = await insertPush({ agoMs: 1_000 });
    const acceptedAt = pushStartMs(push);
    expect(await tickAt(acceptedAt + 3_000)).toBe(0);
    expect(await listJobs('send')).toEqual([]);
    for (let times = 0; times < 2; times += 1) {
      expect(await tickAt(acceptedAt + 3_001)).toBe(1);
      expect(await listJobs('send')).toEqual([jobIdOf(push)]);
    }
  });

  test('because a worker has parked it in a pause of its app gets one when the pause is over', async () => {
    const { apps, batchTable, suspensions } = bench.store;
    const account = await bench.store.accounts.create('Test', 'pro');
    const app = await apps.create('Test', account);
    const parked = await insertPush({ agoMs: 1, app });
    await apps.pause(app);
    await suspensions.refresh();
    expect(await batchTable.claim(parked, 'replies', 5_000)).toBeUndefined();
    expect(await tickAt(bench.store.clock.now() + 60_000)).toBe(0);
    expect(await listJobs('send')).toEqual([]);
    await apps.resume(app);
    await suspensions.refresh();
    await tickAt(bench.store.clock.now());
    expect(await listJobs('send')).toHaveLength(1);
  });

  test('that was scheduled, waits for a retry or goes over a provider gets one at once', async () => {
    const scheduled = await insertPush({ agoMs: 900, isScheduled: true });
    const retry = await insertPush({ agoMs: 500, tries: 1 });
    const provider = await insertPush({ agoMs: 1, channel: 'apns' });
    expect(await tickAt(bench.store.clock.now())).toBe(3);
    expect((await listJobs('send')).sort()).toEqual([scheduled, retry].map(jobIdOf).sort());
    const data = await redis.hget(queueKey(redis, 'send', jobIdOf(retry)), 'data');
    expect(JSON.parse(data ?? '')).toEqual({ app: APP, pushes: [retry] });
    expect(await listJobs('deliver-apns')).toEqual([deliverJobId(provider)]);
  });
});

const SPAN = 'b7ad6b7169203331';
const TRACES = ['1', '2', '3'].map((digit) => digit.repeat(32)) as [string, string, string];

describe('a traced tick', () => {
  let receiver: OtlpReceiver;
  let tracing: ReturnType<typeof createOpenTelemetry>;
  beforeAll(async () => {
    receiver = await startOtlpReceiver();
    const log = { warn: () => undefined };
    tracing = createOpenTelemetry('scheduler', { endpoint: receiver.url, ratio: 1 }, log);
  });
  afterAll(async () => {
    await tracing?.stop();
    await receiver?.close();
  });

  const tick = () => reconcile(bench.store, producers, tracing.tracer);
  const untilSpan = (name: string, traceId: string): Promise<ReceivedSpan> => {
    const isIt = (span: ReceivedSpan) =>
      span.name === name && span.links.some((link) => link.traceId === traceId);
    return until(() => receiver.spans().find(isIt), { timeoutMs: 20_000 });
  };

  test('links to a push whose job was lost, and to one that is due', async () => {
    const [lost, scheduled] = TRACES;
    await insertPush({ trace: lost });
    await insertPush({ isScheduled: true, trace: scheduled });
    await insertPush();
    expect(await tick()).toMatchObject({ opened: 1, works: 3 });
    expect(await untilSpan('open due pushes', scheduled)).toMatchObject({
      service: 'carillon-scheduler',
      parentSpanId: '',
      links: [{ traceId: scheduled, spanId: SPAN }],
      attributes: { 'carillon.items': 1 },
    });
    // The tick that opens a push adds its job as well.
    const adding = await untilSpan('reconcile', lost);
    expect(adding.links.map(({ traceId }) => traceId).sort()).toEqual([lost, scheduled]);
    expect(adding.attributes).toEqual({ 'carillon.items': 3 });
    expect(receiver.raw()).not.toContain(TOKEN);
  });

  test('records nothing without traced pushes, and links a batch through its push', async () => {
    const before = receiver.spans().length;
    await insertPush({ isScheduled: true });
    expect(await tick()).toMatchObject({ opened: 1 });
    await bench.clear();
    const push = await insertPush({ trace: TRACES[2] });
    await bench.pushes.updateOne({ _id: push }, { $unset: { work: true } });
    const at = new Date(bench.store.clock.now() - 1_000);
    const batch = createBatchDocument({ _id: push, app: APP }, 'mqtt', [TOKEN], 0, 'ready', at);
    await bench.batches.insertOne(batch);
    expect(await tick()).toMatchObject({ works: 1 });
    const span = await untilSpan('reconcile', TRACES[2]);
    expect(span.attributes).toEqual({ 'carillon.items': 1 });
    expect(receiver.spans()).toHaveLength(before + 1);
  });
});

describe('cleaning', () => {
  const clean = () => createClean(bench.store, bench.store, producers)();

  test('a running re-drive has one job from the next tick on, whatever Redis has lost', async () => {
    const { redrives } = bench.store;
    await clean();
    expect(await listJobs('redrive')).toEqual([]);
    const [running = '', ended = ''] = [
      await redrives.create(newObjectId(), {}),
      await redrives.create(newObjectId(), {}),
    ];
    await redrives.end({ _id: ended }, 'finished');
    for (let times = 0; times < 2; times += 1) {
      await clean();
      await clean();
      expect(await listJobs('redrive')).toEqual([redriveJobId(running, undefined)]);
      await redis.flushall();
    }
  });

  test('without a running re-drive a tick reads no document of the others', async () => {
    const { store, db } = bench;
    const ended = (await store.redrives.create(newObjectId(), {})) ?? '';
    await store.redrives.end({ _id: ended }, 'finished');
    await db.command({ profile: 2 });
    await clean();
    await db.command({ profile: 0 });
    const reads = await db
      .collection('system.profile')
      .find({ ns: /\.redrives$/ })
      .toArray();
    expect(reads).toMatchObject([{ op: 'query', docsExamined: 0, keysExamined: 0 }]);
  });

  test('a tick clears deleted devices and full inboxes before its recount of a topic fails', async () => {
    const { store, db } = bench;
    const devices = db.collection<{ _id: string }>('devices');
    const fullInboxes = db.collection<{ _id: string }>('full');
    await devices.insertOne({
      _id: 'gone',
      ...{ app: 'app', deletedAt: new Date(), leaving: true },
    });
    await fullInboxes.insertOne({ _id: 'empty' });
    // An import of subscriptions was interrupted an hour ago, and all writes of topics fail.
    await db.createCollection('topics', { validator: { never: { $exists: true } } });
    const importing = store.imports.importSubscriptions('app', [
      { topic: 'news', token: 'device', platform: 'android', since: new Date(0) },
    ]);
    await expect(importing).rejects.toThrow();
    const hourAgo = new Date(Date.now() - HOUR_MS);
    await db.collection('subscriptions').updateMany({}, { $set: { since: hourAgo } });
    await expect(clean()).rejects.toThrow(/validation/);
    expect(await devices.findOne({ _id: 'gone' })).not.toHaveProperty('leaving');
    expect(await fullInboxes.countDocuments()).toBe(0);
  });

  test('former devices to which a worker delivers stay uncleared, and delay no others', async () => {
    const { db } = bench;
    const push = await insertPush();
    const devices = db.collection<{ _id: string }>('devices');
    const rows = db.collection<{ _id: string }>('inbox');
    await bench.pushes.updateOne({ _id: push }, { $set: { 'work.claim': 'held' } });
    const tokens = Array.from({ length: FORMERS }, (_, n) => `former${1_000 + n}`);
    await devices.insertOne({ _id: 'next', ...{ app: APP, platform: 'android' } });
    for (const [position, token] of tokens.entries()) {
      const provider = { channel: 'fcm', address: token, formerOf: token };
      const former = { app: APP, platform: 'android', provider, replacedBy: 'next', leaving: true };
      await devices.insertOne({ _id: token, ...former });
      await rows.insertOne({ _id: `${token}:${push}`, ...{ push, work: push, position } });
    }
    const gone = { app: APP, deletedAt: new Date(), leaving: true };
    await devices.insertOne({ _id: 'gone', ...gone });
    const countUncleared = () => devices.countDocuments({ leaving: true });
    const tickOfOne = createClean(bench.store, bench.store, producers);
    for (let tick = 0; tick < 3; tick += 1) await tickOfOne();
    expect(await countUncleared()).toBe(FORMERS);
    await bench.pushes.updateOne({ _id: push }, { $unset: { 'work.claim': true } });
    for (let tick = 0; tick < 3; tick += 1) await tickOfOne();
    expect(await countUncleared()).toBe(0);
  });

  test('devices that have ended are deleted and cleared, however many at once, and no others', async () => {
    const { store, db } = bench;
    // Writes of topics failed before.
    await db.collection('topics').drop();
    const webhook = { _id: 'hook', app: APP, events: ['device.deleted'] };
    await db.collection<{ _id: string }>('webhooks').insertOne(webhook);
    await store.knownWebhooks.refresh();
    const register = async (expiresInSeconds: number) => {
      const { token } = await store.devices.register(APP, 'ios', undefined, { expiresInSeconds });
      await store.subscriptions.subscribe(APP, { token, platform: 'ios' }, ['news']);
      return token;
    };
    const lives = await register(86_400);
    for (let n = 0; n < ENDED; n += 1) await register(-1 - n);
    // A tick has little time for it.
    const counts = { expired: 0, cleared: 0 };
    for (let tick = await clean(); tick.expired > 0; tick = await clean()) {
      counts.expired += tick.expired;
      counts.cleared += tick.cleared;
    }
    expect(counts).toEqual({ expired: ENDED, cleared: ENDED });
    const devices = db.collection('devices');
    const reported = { deletedAt: { $exists: true }, leaving: { $exists: false }, expiresAt: null };
    const events = { 'notify.w': 'hook', 'notify.events': { $exists: true } };
    expect(await devices.countDocuments({ ...reported, ...events })).toBe(ENDED);
    expect(await store.devices.find(lives)).not.toHaveProperty('deletedAt');
    const subscriptions = await db.collection('subscriptions').find().toArray();
    expect(subscriptions).toMatchObject([{ token: lives }]);
  });
});
