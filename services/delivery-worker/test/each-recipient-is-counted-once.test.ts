import { failureCode, OUTCOMES } from '@carillon/core/outcomes';
import { processCounts } from '@carillon/core/process-counts';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import {
  acknowledge,
  insertPush,
  LEASE_MS,
  newTokens,
  type StoreUnderTest,
  startStore,
} from '../../../packages/store/test/store-under-test.ts';
import { createBatchOutcomes } from '../src/deliver/batch-outcomes.ts';
import { createOutcomeCounter } from '../src/deliver/count-outcomes.ts';

let database: StoreUnderTest;
/** Latencies that were measured. */
const measured: number[] = [];
beforeAll(async () => {
  database = await startStore();
});
afterAll(() => database?.stop());

/** A worker that has claimed a batch, and saves or settles it as workers do. */
async function startWorker(id: string, leaseMs: number) {
  const { store, pushes } = database;
  const { batchTable } = store;
  const [push, batch] = [
    await pushes.findOne({ _id: id }),
    await batchTable.claim(id, 'reply', leaseMs),
  ];
  if (batch === undefined || push === null) throw new Error(`${id} was not claimed`);
  const batchOutcomes = createBatchOutcomes(store.clock, push, batch);
  const counter = createOutcomeCounter(
    (_, latencies) => measured.push(...latencies),
    push.app,
    batch.work,
  );
  return {
    ...batchOutcomes,
    async save(mayBeReceived?: (position: number) => boolean): Promise<boolean> {
      const stored = batchOutcomes.toSettlement();
      const isSaved = await batchTable.saveOutcomes(stored);
      if (isSaved) counter.count(stored, mayBeReceived);
      return isSaved;
    },
    async settle(): Promise<boolean> {
      const settlement = batchOutcomes.toSettlement();
      const isSettled = (await batchTable.settle(settlement)) !== undefined;
      if (isSettled) counter.count(settlement);
      return isSettled;
    },
  };
}

/** Starts to count recipients by outcome, and failures by reason. */
function startCounting() {
  const read = (): Record<string, number> => ({
    ...processCounts.recipients.get('mqtt'),
    ...Object.fromEntries(processCounts.failures),
  });
  const before = read();
  return () =>
    Object.fromEntries(
      Object.entries(read())
        .map(([name, n]) => [name, n - (before[name] ?? 0)] as const)
        .filter(([, n]) => n > 0),
    );
}

test('by the worker that saves its outcome, and not by the next one that settles the batch', async () => {
  const { id } = await insertPush(database, newTokens(4));
  const count = startCounting();
  const first = await startWorker(id, 0);
  first.recordOutcome(0, OUTCOMES.sent);
  first.recordOutcome(1, failureCode('bad-provider-address'));
  expect(await first.save()).toBe(true);
  const saved = { sent: 1, failed: 1, 'bad-provider-address': 1 };
  expect(count()).toEqual(saved);
  expect(await first.save()).toBe(true);
  expect(count()).toEqual(saved);
  const second = await startWorker(id, LEASE_MS);
  // The first one was only slow.
  first.recordRemaining(OUTCOMES.sent);
  expect([await first.save(), await first.settle()]).toEqual([false, false]);
  expect(count()).toEqual(saved);
  expect([...second.pending]).toEqual([2, 3]);
  second.recordRemaining(OUTCOMES.gone);
  expect(await second.settle()).toBe(true);
  expect(count()).toEqual({ ...saved, gone: 2 });
  // The settlement of a worker that has not seen the response.
  expect(await second.settle()).toBe(true);
  expect(count()).toEqual({ ...saved, gone: 2 });
});

test('as delivered while a receipt may override what its provider has responded, else as that', async () => {
  const { id } = await insertPush(database, newTokens(6));
  const count = startCounting();
  const worker = await startWorker(id, LEASE_MS);
  worker.recordOutcome(0, failureCode('bad-provider-address'));
  worker.recordOutcome(1, OUTCOMES.gone);
  worker.recordOutcome(2, OUTCOMES.gone);
  worker.recordRemaining(OUTCOMES.sent);
  await worker.save((position) => position < 5);
  expect(count()).toEqual({ sent: 1 });
  for (const position of [0, 1, 3, 5]) worker.recordReceipt(position);
  await worker.settle();
  expect(count()).toEqual({ sent: 2, delivered: 3, gone: 1 });
  expect(measured.filter((latencyMs) => latencyMs > 0)).toHaveLength(3);
});

test('as delivered from the inbox, and not by the worker that takes over from one that was killed', async () => {
  const push = await insertPush(database, newTokens(2));
  const [token = '', other = ''] = push.tokens;
  const count = startCounting();
  await startWorker(push.id, 0);
  const row = { push: push.id, work: push.id, sent: false };
  const rows = [token, other].map((one, position) => ({ ...row, token: one, position }));
  await database.store.inbox.enqueue(rows);
  await acknowledge(database, push, token);
  expect(count()).toEqual({ delivered: 1 });
  const second = await startWorker(push.id, LEASE_MS);
  expect([...second.pending]).toEqual([1]);
  second.recordRemaining(OUTCOMES.inbox);
  expect(await second.settle()).toBe(true);
  expect(count()).toEqual({ delivered: 1 });
  await acknowledge(database, push, other);
  expect(count()).toEqual({ delivered: 2 });
});
