import { isBatchId, pushStartMs } from '@carillon/core/ids';
import { OUTCOMES } from '@carillon/core/outcomes';
import type { Batch } from '@carillon/store/documents';
import { describe, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import {
  APP,
  acknowledge,
  complete,
  deliverToInboxes,
  expire,
  findReported,
  insertPush,
  newTokens,
  profile,
  SHAPES,
  type TestPush,
} from '../../store/test/store-under-test.ts';
import { useStore } from '../../store/test/use-store.ts';
import { FIRST_RECIPIENT } from '../src/recipients.ts';

/** Enough for their positions to span several words. */
const RECIPIENTS = 140;
const DAY_MS = 86_400_000;

const database = useStore();
const { store } = database;

/** Returns the collection of the documents that hold the recipients. */
function holdersOf({ batchIds }: TestPush) {
  const name = isBatchId(batchIds[0] ?? '') ? 'batches' : 'pushes';
  return database.db.collection<{ _id: string; work: Batch }>(name);
}

/** Reads the documents that hold the recipients, sorted by token. */
const readHolders = (push: TestPush) =>
  holdersOf(push)
    .find({ _id: { $in: push.batchIds } })
    .sort({ _id: 1 })
    .toArray();

/** Moves the time of all receipts of a push. */
async function moveReceipts(push: TestPush, at: Date): Promise<void> {
  for (const { _id, work } of await readHolders(push)) {
    const moved = Object.entries(work.gotAt ?? {}).flatMap(([word, times]) =>
      Object.keys(times).map((bit) => [`work.gotAt.${word}.${bit}`, at]),
    );
    if (moved.length > 0)
      await holdersOf(push).updateOne({ _id }, { $set: Object.fromEntries(moved) as object });
  }
}

/** Returns the milliseconds to each receipt by everything that shows them; recipients without one are left out. */
async function readLatencies(push: TestPush): Promise<Record<string, number>> {
  const found = await findReported(store, push);
  const { recipients } = await store.recipients.readPage(found, FIRST_RECIPIENT, RECIPIENTS + 1);
  const entries = recipients.flatMap(({ token, milliseconds }) =>
    milliseconds === undefined ? [] : [[token, milliseconds] as const],
  );
  const latencies = Object.fromEntries(entries);
  for (const token of push.tokens.slice(0, 3)) {
    const [one, status] = await Promise.all([
      store.recipients.findOne(found, token),
      store.deliveryStatus.statusOfRecipient(push.id, token),
    ]);
    expect([one?.milliseconds, status?.milliseconds]).toEqual([latencies[token], latencies[token]]);
  }
  const all = Object.values(latencies);
  const { latency } = await store.pushOutcomes.summarize(found);
  expect([latency?.count ?? 0, latency?.min ?? 0, latency?.max ?? 0]).toEqual([
    all.length,
    all.length === 0 ? 0 : Math.min(...all),
    Math.max(0, ...all),
  ]);
  const summary = await store.pushSummaries.summarize(found);
  expect([summary.fastestReceiptMs, summary.slowestReceiptMs]).toEqual([
    latency?.min ?? 0,
    latency?.max ?? 0,
  ]);
  return latencies;
}

describe.each(SHAPES)('of a push with its recipients %s', (shape) => {
  test('each receipt has the time at which it was recorded', async () => {
    const push = await insertPush(database, newTokens(RECIPIENTS), { shape });
    await deliverToInboxes(store, push);
    expect(await readLatencies(push)).toEqual({});
    const [first = '', second = ''] = push.tokens;
    const last = push.tokens.at(-1) ?? '';
    for (const token of [first, last]) await acknowledge(database, push, token);
    await moveReceipts(push, new Date(pushStartMs(push.id) + 90_000));
    await acknowledge(database, push, second);
    const { [second]: newest, ...others } = await readLatencies(push);
    expect(others).toEqual({ [first]: 90_000, [last]: 90_000 });
    expect(newest).toBeGreaterThan(0);
  });

  test('a receipt that is recorded twice keeps its first time', async () => {
    const push = await insertPush(database, newTokens(2), { shape });
    await deliverToInboxes(store, push);
    const [token = ''] = push.tokens;
    await acknowledge(database, push, token);
    const before = await readHolders(push);
    const recordedAt = before[0]?.work.gotAt?.[0]?.[0]?.getTime() ?? Number.POSITIVE_INFINITY;
    await until(() => store.clock.now() > recordedAt + 2);
    await acknowledge(database, push, token);
    expect(await readHolders(push)).toEqual(before);
  });

  test('a receipt after the end of the push has none', async () => {
    const push = await insertPush(database, newTokens(2), { shape });
    await deliverToInboxes(store, push);
    const [early = '', late = ''] = push.tokens;
    await acknowledge(database, push, early);
    await moveReceipts(push, new Date(pushStartMs(push.id) + DAY_MS));
    await expire(database, push);
    await complete(store, push);
    await acknowledge(database, push, late);
    expect(await readLatencies(push)).toEqual({ [early]: DAY_MS });
  });
});

test('a receipt that the worker has waited for is not replaced', async () => {
  const push = await insertPush(database, newTokens(1));
  const claimed = await store.batchTable.claim(push.id, 'reply', 60_000);
  await acknowledge(database, push, push.tokens[0] ?? '');
  await store.batchTable.settle({
    ...{ id: push.id, claim: claimed?.claim ?? '' },
    ...{ outcomes: Uint8Array.of(OUTCOMES.delivered), latenciesMs: Uint32Array.of(7) },
  });
  await moveReceipts(push, new Date(pushStartMs(push.id) + DAY_MS));
  expect(await readLatencies(push)).toEqual({ [push.tokens[0] ?? '']: 7 });
});

test('the last pushes of a device have the times of its receipts', async () => {
  const [token = ''] = newTokens(1);
  const pushes = [
    await insertPush(database, [token]),
    await insertPush(database, [token, ...newTokens(1)], { shape: 'in two batches' }),
  ];
  for (const push of pushes) {
    await deliverToInboxes(store, push);
    await acknowledge(database, push, token);
    await moveReceipts(push, new Date(pushStartMs(push.id) + 40_000));
  }
  const query = { app: APP, token, before: 'g', limit: 2 };
  const found = await store.pushesOfDevice.list(query);
  expect(found.pushes.map(({ status }) => status)).toEqual([
    { outcome: 'delivered', milliseconds: 40_000 },
    { outcome: 'delivered', milliseconds: 40_000 },
  ]);
});

test('the time adds no statement: receipts of many pushes share one', async () => {
  const pushes = await Promise.all(newTokens(50).map((token) => insertPush(database, [token])));
  await Promise.all(pushes.map((push) => deliverToInboxes(store, push)));
  const receipts = pushes.map(({ id, tokens }) => {
    return { app: APP, rowId: `${tokens[0]}:${id}`, push: id, work: id, position: 0 };
  });
  const statements = await profile(database, () => store.receipts.record(receipts), {
    ns: /\.(pushes|batches|inbox)$/,
  });
  expect(statements.map(({ op }) => op).sort()).toEqual(['remove', 'update']);
  const { latency } = await store.pushOutcomes.summarize(
    await findReported(store, pushes[49] as TestPush),
  );
  expect(latency?.count).toBe(1);
});
