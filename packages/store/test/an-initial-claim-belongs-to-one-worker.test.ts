import { setTimeout as sleep } from 'node:timers/promises';
import { INITIAL_LEASE_MS } from '@carillon/core/batch';
import { OUTCOMES } from '@carillon/core/outcomes';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createBatch } from '../src/create-batches.ts';
import type { Batch } from '../src/documents.ts';
import { claimInitially, createTakenClaims, mayTakeInitially } from '../src/initial-claim.ts';
import type { Store } from '../src/store.ts';
import {
  insertPush,
  LEASE_MS,
  newTokens,
  type StoreUnderTest,
  startStore,
} from './store-under-test.ts';

let database: StoreUnderTest;
let store: Store;
beforeAll(async () => {
  database = await startStore();
  store = database.store;
});
afterAll(() => database?.stop());

/** Inserts a push with its claim, so long after it was accepted. */
async function insertClaimed(ageMs: number): Promise<{ id: string; claim: string }> {
  const tokens = newTokens(1);
  const { id } = await insertPush(database, tokens);
  const acceptedAt = new Date(store.clock.now() - ageMs);
  const work = claimInitially(createBatch('mqtt', tokens, 'ready', acceptedAt), acceptedAt);
  await database.pushes.updateOne({ _id: id }, { $set: { acceptedAt, work } });
  return { id, claim: work.claim ?? '' };
}

const readBatch = async (id: string): Promise<Batch | undefined> =>
  (await database.pushes.findOne({ _id: id }))?.work;

const settlement = (id: string, claim: string) => ({
  ...{ id, claim, outcomes: Uint8Array.of(OUTCOMES.delivered) },
  latenciesMs: new Uint32Array(1),
});

test('no other worker claims the push before the lease ends, and no tick finds it', async () => {
  const { id } = await insertClaimed(0);
  expect(await store.batchTable.claim(id, 'r:other', LEASE_MS)).toBeUndefined();
  expect(await store.batchTable.claim(id, 'r:other', LEASE_MS, 'another')).toBeUndefined();
  expect((await store.batchTable.findDue(10)).map((due) => due.id)).not.toContain(id);
});

test('the worker that holds it renews, saves and settles under it, at the first attempt', async () => {
  const { id, claim } = await insertClaimed(0);
  expect([...(await store.batchTable.renew([{ id, claim }], LEASE_MS))]).toEqual([claim]);
  expect(await store.batchTable.saveOutcomes({ ...settlement(id, claim), deferred: [] })).toBe(
    true,
  );
  expect(await store.batchTable.settle(settlement(id, claim))).toEqual({ got: {} });
  expect(await readBatch(id)).toMatchObject({ state: 'closed', claim, tries: 1 });
});

test('a worker that gets it late replaces it at once by a claim of its own, as the first to try', async () => {
  const { id, claim } = await insertClaimed(1_000);
  const other = await insertClaimed(0);
  const [claimed, refused] = await Promise.all([
    store.batchTable.claim(id, 'r:late', LEASE_MS, claim),
    store.batchTable.claim(other.id, 'r:late', LEASE_MS),
  ]);
  expect(claimed?.claim).not.toBe(claim);
  expect(claimed?.work.before).toBeUndefined();
  expect(claimed?.work.lapsed).toBeUndefined();
  expect(refused).toBeUndefined();
  expect(await store.batchTable.settle(settlement(id, claim))).toBeUndefined();
});

test('when the lease has ended, a successor claims the push, and knows that an unnamed worker may have sent it', async () => {
  const { id, claim } = await insertClaimed(INITIAL_LEASE_MS + 1);
  const successor = await store.batchTable.claim(id, 'r:next', LEASE_MS);
  expect(successor?.work).toMatchObject({ before: { claim }, tries: 2, lapsed: 1 });
  expect(successor?.work.before).not.toHaveProperty('reply');
  expect(await store.batchTable.settle(settlement(id, claim))).toBeUndefined();
  expect([...(await store.batchTable.renew([{ id, claim }], LEASE_MS))]).toEqual([]);
});

test('a tick regards a push whose lease has ended as a first attempt, until a worker has stored a claim', async () => {
  const { id } = await insertClaimed(INITIAL_LEASE_MS + 1);
  const find = async () => (await store.batchTable.findDue(100)).find((due) => due.id === id);
  const acceptedAt = (await database.pushes.findOne({ _id: id }))?.acceptedAt;
  expect((await find())?.firstAttemptSince).toEqual(acceptedAt);
  await store.batchTable.claim(id, 'r:dead', 0);
  expect((await find())?.firstAttemptSince).toBeUndefined();
});

test('a released claim leaves the push due at once', async () => {
  const { id, claim } = await insertClaimed(0);
  expect(await store.batchTable.releaseClaim({ id, claim }, { delayMs: 0 })).toBe(true);
  expect((await store.batchTable.claim(id, 'r:any', LEASE_MS))?.work.before).toBeUndefined();
});

test('the end of the push ends the claim', async () => {
  const { id, claim } = await insertClaimed(0);
  const { app = '' } = (await database.pushes.findOne({ _id: id })) ?? {};
  await store.pushCompletion.markDeleted(app, id);
  await store.pushCompletion.completeIfDone(id, 0);
  expect(await store.batchTable.settle(settlement(id, claim))).toBeUndefined();
});

test('only a push that was accepted just now is taken under it', () => {
  expect([-51, -49, 0, 499, 500, 5_000].map(mayTakeInitially)).toEqual([
    ...[false, true, true, true, false, false],
  ]);
});

test('a process takes a claim once, for as long as it may be taken', async () => {
  const take = createTakenClaims();
  const takenAt = performance.now();
  expect([take('a'), take('b'), take('a')]).toEqual([true, true, false]);
  const others: boolean[] = [];
  while (performance.now() - takenAt < 500) {
    others.push(take(`other-${others.length}`));
    expect(take('a')).toBe(false);
    await sleep(50);
  }
  expect(others).not.toContain(false);
});
