import { newPushId } from '@carillon/core/ids';
import { expect, test } from '@jest/globals';
import type { TestStore } from '../../../test/support/open-store.ts';
import type { PushDocument } from '../src/documents.ts';
import { createPushes, PushIdInUse } from '../src/pushes.ts';
import { useCrossings } from './crossings.ts';
import { push } from './document-fixtures.ts';
import { useStatements } from './statements.ts';
import { useStore } from './use-store.ts';

const HOUR_MS = 3_600_000;

const under = useStore();
const { store } = under;
const cross = useCrossings(under);
const listed = useStatements(under);

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
async function insert(built: PushDocument, by: Pick<TestStore, 'pushes'> = store): Promise<string> {
  return (await by.pushes.insert(built))?._id ?? built._id;
}

const findPushes = async (key: string) =>
  (await under.pushes.find({ 'idempotency.key': key }).toArray()).map(({ _id }) => _id);

test('a push with a key is one write, and a repeated one finds it', async () => {
  const pushes = createPushes(listed.db, store.clock, store.suspensions);
  const key = newKey();
  const first = buildPush(key);
  expect(await listed.of(() => insert(first, { pushes }))).toEqual(['insert pushes']);
  const repeated = async () => expect(await insert(buildPush(key), { pushes })).toBe(first._id);
  // The update waits until the push is durable.
  expect(await listed.of(repeated)).toEqual(['insert pushes', 'find pushes', 'update pushes']);
});

test.each([1, 25])(
  'of requests at once in two processes one inserts its push, also %d hours after another one with the key',
  async (hours) => {
    await cross({
      async given() {
        const key = newKey();
        const earlier = { acceptedAt: new Date(Date.now() - hours * HOUR_MS) };
        await insert(buildPush(key, earlier));
        return { key, ids: new Set<string>() };
      },
      held: async (by, { key, ids }) => ids.add(await insert(buildPush(key), by)),
      meanwhile: async (by, { key, ids }) => ids.add(await insert(buildPush(key), by)),
      check: async ({ key, ids }) => expect([...ids]).toEqual(await findPushes(key)),
    });
  },
);

test('of twenty requests at once in one process one inserts its push', async () => {
  const key = newKey();
  const requests = Array.from({ length: 20 }, () => insert(buildPush(key)));
  expect([...new Set(await Promise.all(requests))]).toEqual(await findPushes(key));
});

test.each([1, 20])(
  'of %d pushes one has the id of an earlier push: it alone is not stored, and its key stays free',
  async (count) => {
    const earlier = buildPush(newKey());
    await insert(earlier);
    const key = newKey();
    const others = Array.from({ length: count - 1 }, () => insert(buildPush(newKey())));
    const taken = insert(buildPush(key, { _id: earlier._id }));
    await expect(taken).rejects.toThrow(PushIdInUse);
    expect(new Set(await Promise.all(others)).size).toBe(count - 1);
    expect(await findPushes(key)).toEqual([]);
  },
);

test('another app may use the same key', async () => {
  const [key, app] = [newKey(), 'c'.repeat(24)];
  const ids = [buildPush(key), buildPush(key, { app })];
  await Promise.all(ids.map((one) => insert(one)));
  expect((await findPushes(key)).sort()).toEqual(ids.map(({ _id }) => _id).sort());
  expect((await store.pushes.findByIdempotencyKey(app, key))?._id).toBe(ids[1]?._id);
});

test.each(['finished', 'deleted'] as const)(
  'a push keeps its key for a day, also when it is %s',
  async (state) => {
    const key = newKey();
    const first = buildPush(key, { acceptedAt: new Date(Date.now() - 23 * HOUR_MS), state });
    await insert(first);
    expect(await insert(buildPush(key))).toBe(first._id);
    const yesterday = new Date(Date.now() - 25 * HOUR_MS);
    await under.pushes.updateOne({ _id: first._id }, { $set: { acceptedAt: yesterday } });
    expect(await store.pushes.findByIdempotencyKey(first.app, key)).toBeUndefined();
    const second = buildPush(key);
    expect(await insert(second)).toBe(second._id);
    expect(await findPushes(key)).toEqual([second._id]);
    expect(await under.pushes.countDocuments({ _id: first._id })).toBe(1);
  },
);

test('a push that was removed has no key', async () => {
  const key = newKey();
  const first = buildPush(key);
  await insert(first);
  await under.pushes.deleteOne({ _id: first._id });
  expect(await store.pushes.findByIdempotencyKey(first.app, key)).toBeUndefined();
  const second = buildPush(key);
  expect(await insert(second)).toBe(second._id);
});
