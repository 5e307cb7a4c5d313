import { newObjectId, newPushId } from '@carillon/core/ids';
import { connectRedis, type Redis } from '@carillon/presence/redis';
import { createProducers } from '@carillon/queue/producers';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
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
import { reconcile } from '../src/reconcile.ts';

const APP = newObjectId();
const SPAN = 'b7ad6b7169203331';
const TOKEN = 'c'.repeat(22);

let receiver: OtlpReceiver;
let tracing: ReturnType<typeof createOpenTelemetry>;
let redis: Awaited<ReturnType<typeof startRedis>>;
let connection: Redis;
let bench: StoreUnderTest;
let producers: ReturnType<typeof createProducers>;
beforeAll(async () => {
  receiver = await startOtlpReceiver();
  const log = { warn: () => undefined };
  tracing = createOpenTelemetry('scheduler', { endpoint: receiver.url, ratio: 1 }, log);
  redis = await startRedis();
  connection = await connectRedis(redis);
  bench = await startStore();
  producers = createProducers(redis, () => undefined);
});
afterAll(async () => {
  await producers?.close();
  await bench?.stop();
  connection?.disconnect();
  await redis?.stop();
  await tracing?.stop();
  await receiver?.close();
});

/** Stores a push whose job is lost, like all jobs here: no push waits behind another. */
async function insertPush(state: 'open' | 'scheduled', traceId?: string): Promise<string> {
  await connection.flushall();
  const now = Math.floor(bench.store.clock.now());
  const _id = newPushId(now);
  const [dueAt, expiresAt] = [new Date(now - 60_000), new Date(now + 60_000)];
  await bench.store.pushes.insert({
    _id,
    app: APP,
    state,
    acceptedAt: dueAt,
    ...(state === 'scheduled' && { dueAt }),
    expiresAt,
    sendUntil: expiresAt,
    data: '{"secret":1}',
    ...(traceId !== undefined && { trace: `00-${traceId}-${SPAN}-01` }),
    audience: { topics: [], tokens: '' },
    devices: 1,
    fan: { seq: 0, next: 1, done: true },
    work: { state: 'ready', channel: 'mqtt', at: dueAt, tries: 0, n: 1, tokens: TOKEN },
  });
  return _id;
}

function untilSpan(name: string, traceId: string): Promise<ReceivedSpan> {
  const find = () =>
    receiver
      .spans()
      .find((span) => span.name === name && span.links.some((link) => link.traceId === traceId));
  return until(find, { timeoutMs: 20_000, what: `the span ${name} is exported` });
}

test('a tick links to a push whose job was lost, and to one that is due', async () => {
  const [lost, scheduled] = ['1'.repeat(32), '2'.repeat(32)] as [string, string];
  await insertPush('open', lost);
  await insertPush('scheduled', scheduled);
  await insertPush('open');
  const result = await reconcile(bench.store, producers, tracing.tracer);
  expect(result).toMatchObject({ opened: 1, works: 3 });
  const opening = await untilSpan('open due pushes', scheduled);
  expect(opening).toMatchObject({
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

test('a tick without traced pushes records nothing', async () => {
  const before = receiver.spans().length;
  await bench.pushes.deleteMany({});
  await insertPush('scheduled');
  expect(await reconcile(bench.store, producers, tracing.tracer)).toMatchObject({ opened: 1 });
  const last = '3'.repeat(32);
  await bench.pushes.deleteMany({});
  await insertPush('open', last);
  await reconcile(bench.store, producers, tracing.tracer);
  await untilSpan('reconcile', last);
  expect(receiver.spans()).toHaveLength(before + 1);
});

test('a batch of a push is linked through its push', async () => {
  const traceId = '4'.repeat(32);
  await bench.pushes.deleteMany({});
  const push = await insertPush('open', traceId);
  await bench.pushes.updateOne({ _id: push }, { $unset: { work: true } });
  const at = new Date(bench.store.clock.now() - 1_000);
  const batch = createBatchDocument({ _id: push, app: APP }, 'mqtt', [TOKEN], 0, 'ready', at);
  await bench.batches.insertOne(batch);
  expect(await reconcile(bench.store, producers, tracing.tracer)).toMatchObject({ works: 1 });
  expect((await untilSpan('reconcile', traceId)).attributes).toEqual({ 'carillon.items': 1 });
});
