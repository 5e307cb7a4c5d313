import { OUTCOMES } from '@carillon/core/outcomes';
import type { ClaimedBatch } from '@carillon/store/batch-table';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { FIRST_RECIPIENT } from '../../../packages/reports/src/recipients.ts';
import {
  acknowledge,
  expire,
  insertPush,
  LEASE_MS,
  newTokens,
  RETENTION_MS,
  type StoreUnderTest,
  startStore,
} from '../../../packages/store/test/store-under-test.ts';
import { type BatchOutcomes, createBatchOutcomes } from '../src/deliver/batch-outcomes.ts';

/** Milliseconds from acceptance to the receipts of the first two devices. */
const LATENCIES = [1_500, 2_500] as const;
const SETTLED_MS = 9_000;
const APP = 'a'.repeat(24);

let database: StoreUnderTest;
beforeAll(async () => {
  database = await startStore();
});
afterAll(() => database?.stop());

/** A batch of three devices that a worker has claimed, and the time of its clock. */
async function claim(id: string, leaseMs: number, nowMs: number) {
  const { store, pushes } = database;
  const batch = await store.batchTable.claim(id, 'reply', leaseMs);
  const push = await pushes.findOne({ _id: id });
  if (batch === undefined || push === null) throw new Error(`${id} was not claimed`);
  const clock = { now: () => push.acceptedAt.getTime() + clock.ms, ms: nowMs };
  return { batch, clock, outcomes: createBatchOutcomes(clock, push, batch) };
}

type Claimed = Awaited<ReturnType<typeof claim>>;

/** Ways in which a worker leaves its batch to another one. */
const LEAVINGS: [string, number, (batch: ClaimedBatch, outcomes: BatchOutcomes) => unknown][] = [
  [
    'released the batch',
    LEASE_MS,
    async (batch, outcomes) => {
      await database.store.batchTable.saveOutcomes(outcomes.toSettlement());
      await database.store.batchTable.releaseClaim(batch, { delayMs: 0 });
    },
  ],
  [
    'was killed after it had saved its progress',
    0,
    (_, outcomes) =>
      database.store.batchTable.saveOutcomes({ ...outcomes.toSettlement(), deferred: [] }),
  ],
];

describe.each(LEAVINGS)('the receipts of a worker that %s', (_what, leaseMs, leave) => {
  async function leaveAndSettle(): Promise<{ id: string; tokens: string[] }> {
    const { id, tokens } = await insertPush(database, newTokens(3));
    const first: Claimed = await claim(id, leaseMs, 0);
    for (const [position, latencyMs] of LATENCIES.entries()) {
      first.clock.ms = latencyMs;
      if (position === 0) first.outcomes.recordReceipt(position);
      else first.outcomes.recordOutcome(position, OUTCOMES.delivered);
    }
    await leave(first.batch, first.outcomes);
    const second: Claimed = await claim(id, LEASE_MS, SETTLED_MS);
    expect([...second.outcomes.pending]).toEqual([2]);
    second.outcomes.recordReceipt(2, 1_000);
    await database.store.batchTable.settle(second.outcomes.toSettlement());
    return { id, tokens };
  }

  test('keep their times in the counts and in the list', async () => {
    const { id, tokens } = await leaveAndSettle();
    const { pushOutcomes, recipients } = database.store;
    const push = await pushOutcomes.find(APP, id);
    if (push === undefined) throw new Error(`there is no push ${id}`);
    const { latency, outcomes } = await pushOutcomes.summarize(push);
    expect(outcomes).toEqual({ delivered: 3 });
    const last = SETTLED_MS - 1_000;
    expect(latency).toMatchObject({ count: 3, min: LATENCIES[0], max: last });
    const page = await recipients.readPage(push, FIRST_RECIPIENT, 10);
    expect(page.recipients.map(({ token, milliseconds }) => [token, milliseconds])).toEqual(
      tokens.map((token, n) => [token, [...LATENCIES, last][n]]),
    );
  });
});

test('a receipt after a saved outcome, of a push that ends before the next worker, has none', async () => {
  const { store } = database;
  const push = await insertPush(database, newTokens(1));
  const { batch, outcomes } = await claim(push.id, LEASE_MS, 0);
  outcomes.recordOutcome(0, OUTCOMES.sent);
  await store.batchTable.saveOutcomes({ ...outcomes.toSettlement(), deferred: [] });
  await store.batchTable.releaseClaim(batch, { delayMs: 0 });
  await acknowledge(database, push, push.tokens[0] ?? '');
  await expire(database, push);
  await store.pushCompletion.completeIfDone(push.id, RETENTION_MS);
  const found = await store.pushOutcomes.find(APP, push.id);
  if (found === undefined) throw new Error(`there is no push ${push.id}`);
  const summary = await store.pushOutcomes.summarize(found);
  expect([summary.outcomes, summary.latency]).toEqual([{ sent: 1 }, undefined]);
  const { recipients } = await store.recipients.readPage(found, FIRST_RECIPIENT, 10);
  expect(recipients).toEqual([{ token: push.tokens[0], outcome: 'sent', channel: 'fcm' }]);
});
