import { newDeviceToken, newPushId } from '@carillon/core/ids';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Long } from 'mongodb';
import { SHARD_KEYS } from '../src/shard-keys.ts';
import { type StoreUnderTest, startStore } from './store-under-test.ts';

const DOCUMENTS = 4_000;
const SHARDS = 4;
/** Of the documents, for each shard: far more than chance would add or leave out. */
const [LEAST, MOST] = [0.2, 0.3];

let under: StoreUnderTest;
beforeAll(async () => {
  under = await startStore();
});
afterAll(() => under?.stop());

function expectEven(shards: readonly number[]): void {
  for (let shard = 0; shard < SHARDS; shard += 1) {
    const part = shards.filter((one) => one === shard).length / DOCUMENTS;
    expect(part).toBeGreaterThan(LEAST);
    expect(part).toBeLessThan(MOST);
  }
}

/** Divides values between shards by MongoDB's own hash, as a collection with a hashed key is divided. */
async function divideByHash(values: readonly string[]): Promise<number[]> {
  const hashes = under.db.collection<{ _id: string }>('values');
  await hashes.insertMany(values.map((_id) => ({ _id })));
  const found = await hashes
    .aggregate<{ hash: Long }>([{ $project: { hash: { $toHashedIndexKey: '$_id' } } }], {
      promoteLongs: false,
    })
    .toArray();
  // Unsigned, so that the shards are four equal ranges.
  return found.map(({ hash }) =>
    Number(hash.xor(Long.MIN_VALUE).toUnsigned().shiftRightUnsigned(62)),
  );
}

test('pushes of one millisecond, and so their batches, are spread evenly', async () => {
  expect([SHARD_KEYS.pushes, SHARD_KEYS.batches]).toMatchObject([
    { field: '_id', kind: 'hashed' },
    { field: 'push', kind: 'hashed' },
  ]);
  const now = Date.now();
  const ids = Array.from({ length: DOCUMENTS }, () => newPushId(now));
  expectEven(await divideByHash(ids));
});

test('inbox rows of one push are spread evenly over ranges of tokens', () => {
  expect(SHARD_KEYS.inbox).toMatchObject({ field: '_id', kind: 'ranged' });
  const push = newPushId(Date.now());
  const rows = Array.from({ length: DOCUMENTS }, () => `${newDeviceToken()}:${push}`);
  expectEven(rows.map((row) => Math.floor((Number.parseInt(row.slice(0, 2), 16) * SHARDS) / 256)));
});
