import { randomBytes, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createFleet } from '../support/guarantees/devices.ts';
import { pushWithIdempotencyKey } from '../support/guarantees/push-with-key.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';

const UNKNOWN = 99_999;
/** A bit for each token of the request is 12,500 bytes. */
const KEPT_BYTES = 20_000;

let stack: SharedStack;
let mongo: TestMongo;
const fleet = createFleet(() => stack.dev);
beforeAll(async () => {
  stack = await useSharedStack();
  mongo = await openMongo(stack.dev);
});
afterAll(async () => {
  await mongo?.close();
});

/** The bytes that MongoDB keeps of a push. */
async function documentBytes(id: string): Promise<number> {
  const [size] = await mongo.db
    .collection<{ _id: string }>('pushes')
    .aggregate<{ bytes: number }>([
      { $match: { _id: id } },
      { $project: { bytes: { $bsonSize: '$$ROOT' } } },
    ])
    .toArray();
  return size?.bytes ?? 0;
}

test('a request of 100,000 unknown tokens is stored as one bit for each, and its repeat gets the same response', async () => {
  const { token } = await fleet.offline();
  const unknown = Array.from({ length: UNKNOWN }, () => randomBytes(32).toString('hex'));
  const to = [...unknown.slice(0, 50_000), token, ...unknown.slice(50_000)];
  const key = randomUUID();
  const body = JSON.stringify({ to, data: {} });
  const first = await pushWithIdempotencyKey(stack.dev, key, body);
  expect(JSON.parse(first.text)).toMatchObject({ info: { devices: 1, failed: unknown } });
  expect(await documentBytes(first.json.id)).toBeLessThan(KEPT_BYTES);
  const second = await pushWithIdempotencyKey(stack.dev, key, body);
  expect({ status: second.status, same: second.text === first.text }).toEqual({
    status: 200,
    same: true,
  });
});

test('so is a request whose tokens are repeated in several fields, and whose schedule is past', async () => {
  const { token } = await fleet.offline();
  const schedule = Math.floor(Date.now() / 1_000) + 1;
  const lists = { to: ['a', token, 'a'], tokens: ['b', 'a'], registration_ids: ['c', token] };
  const body = JSON.stringify({ ...lists, data: {}, schedule });
  const key = randomUUID();
  const first = await pushWithIdempotencyKey(stack.dev, key, body);
  expect(JSON.parse(first.text)).toMatchObject({ info: { failed: ['a', 'b', 'c'] } });
  const isPast = () => Date.now() / 1_000 > schedule + 1;
  while (!isPast()) await pushWithIdempotencyKey(stack.dev, key, body);
  const second = await pushWithIdempotencyKey(stack.dev, key, body);
  expect(second.text).toBe(first.text);
});
