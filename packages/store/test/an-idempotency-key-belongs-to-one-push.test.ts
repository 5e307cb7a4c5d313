import { newPushId } from '@carillon/core/ids';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { TestStore } from '../../../test/support/open-store.ts';
import type { PushDocument } from '../src/documents.ts';
import { createPushes } from '../src/pushes.ts';
import { push } from './document-fixtures.ts';
import { type ListedStatements, listStatements } from './statements.ts';
import { type StoreUnderTest, startStore } from './store-under-test.ts';

const PROCESSES = 3;
const ROUNDS = 10;
const HOUR_MS = 3_600_000;

let under: StoreUnderTest;
let stores: TestStore[];
let listed: ListedStatements;
beforeAll(async () => {
  under = await startStore();
  stores = await Promise.all(Array.from({ length: PROCESSES }, () => under.connect()));
  listed = await listStatements(under.uri);
});
afterAll(async () => {
  await listed?.close();
  await under?.stop();
});

const storeOf = (n: number): TestStore => stores[n % PROCESSES] as TestStore;

let sequence = 0;

/** Returns a key that no other test has. */
function newKey(): string {
  sequence += 1;
  return `key${sequence}`;
}

function buildPush(key: string, fields: Partial<PushDocument> = {}): PushDocument {
  const [_id, acceptedAt] = [newPushId(Date.now()), new Date()];
  return push({ _id, acceptedAt, idempotency: { key, bodyHash: 'x' }, ...fields });
}

/** Inserts a push; returns the id of the push that has the key then. */
async function insert({ pushes }: Pick<TestStore, 'pushes'>, built: PushDocument): Promise<string> {
  return (await pushes.insert(built))?._id ?? built._id;
}

const findPushes = async (key: string) =>
  (await under.pushes.find({ 'idempotency.key': key }).toArray()).map(({ _id }) => _id);

test('a push with a key is one write, and a repeated one finds it', async () => {
  const { clock, suspensions } = under.store;
  const pushes = createPushes(listed.db, clock, suspensions);
  const key = newKey();
  const first = buildPush(key);
  expect(await listed.of(() => insert({ pushes }, first))).toEqual(['insert pushes']);
  const repeated = async () => expect(await insert({ pushes }, buildPush(key))).toBe(first._id);
  // The update waits until the push is durable.
  expect(await listed.of(repeated)).toEqual(['insert pushes', 'find pushes', 'update pushes']);
});

test('of twenty requests at once in three processes one inserts its push', async () => {
  for (let round = 0; round < ROUNDS; round += 1) {
    const key = newKey();
    const requests = Array.from({ length: 20 }, (_, n) => insert(storeOf(n), buildPush(key)));
    const ids = new Set(await Promise.all(requests));
    expect([...ids]).toEqual(await findPushes(key));
  }
});

test('another app may use the same key', async () => {
  const [key, app] = [newKey(), 'c'.repeat(24)];
  const ids = [buildPush(key), buildPush(key, { app })];
  await Promise.all(ids.map((one) => insert(under.store, one)));
  expect((await findPushes(key)).sort()).toEqual(ids.map(({ _id }) => _id).sort());
  expect((await under.store.pushes.findByIdempotencyKey(app, key))?._id).toBe(ids[1]?._id);
});

test('a push keeps its key for a day, also when it has ended or is deleted', async () => {
  for (const state of ['finished', 'deleted'] as const) {
    const first = buildPush(newKey(), { acceptedAt: new Date(Date.now() - 23 * HOUR_MS), state });
    const key = first.idempotency?.key ?? '';
    await insert(under.store, first);
    expect(await insert(storeOf(0), buildPush(key))).toBe(first._id);
    const yesterday = new Date(Date.now() - 25 * HOUR_MS);
    await under.pushes.updateOne({ _id: first._id }, { $set: { acceptedAt: yesterday } });
    expect(await under.store.pushes.findByIdempotencyKey(first.app, key)).toBeUndefined();
    const second = buildPush(key);
    expect(await insert(storeOf(1), second)).toBe(second._id);
    expect(await findPushes(key)).toEqual([second._id]);
    expect(await under.pushes.countDocuments({ _id: first._id })).toBe(1);
  }
});

test('a push that was removed has no key', async () => {
  const first = buildPush(newKey());
  const key = first.idempotency?.key ?? '';
  await insert(under.store, first);
  await under.pushes.deleteOne({ _id: first._id });
  expect(await under.store.pushes.findByIdempotencyKey(first.app, key)).toBeUndefined();
  const second = buildPush(key);
  expect(await insert(storeOf(0), second)).toBe(second._id);
});
