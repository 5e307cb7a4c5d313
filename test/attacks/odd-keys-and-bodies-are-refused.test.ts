import { randomBytes, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { expectApiError } from '../support/api/expect-api-error.ts';
import { callWithoutKey } from '../support/api/keyless-calls.ts';
import { getPushStatus } from '../support/end-to-end/pushes.ts';
import { pushWithIdempotencyKey } from '../support/guarantees/push-with-key.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { registerDevice } from '../support/register-device.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';

let stack: SharedStack;
let mongo: TestMongo;
let token: string;
beforeAll(async () => {
  stack = await useSharedStack();
  mongo = await openMongo(stack.dev);
  ({ token } = await registerDevice(stack.dev));
});
afterAll(() => mongo?.close());

describe('a key', () => {
  test.each<[string, (key: string) => string]>([
    ['that is an operator', () => 'api_key[$ne]='],
    ['that is an operator as text', () => `api_key=${encodeURIComponent('{"$ne":null}')}`],
    ['in a list', (key) => `api_key[]=${key}`],
    ['given twice', (key) => `api_key=${key}&api_key=${key}`],
    ['given twice, once wrong', (key) => `api_key=wrong&api_key=${key}`],
    ['with NUL behind it', (key) => `api_key=${key}%00`],
    ['that is NUL', () => 'api_key=%00'],
    ['of SQL', () => `api_key=${encodeURIComponent("' OR 1=1 --")}`],
    ['without its first letter', (key) => `api_key=${key.slice(1)}`],
    ['with one letter more', (key) => `api_key=${key}0`],
    ['in capitals', (key) => `api_key=${key.toUpperCase()}`],
    ['with spaces around it', (key) => `api_key=%20${key}%20`],
    ['under a name in capitals', (key) => `API_KEY=${key}`],
  ])('%s is not accepted', async (_what, write) => {
    const path = `/topics?${write(stack.dev.apiKey)}`;
    expectApiError(await callWithoutKey(stack.dev.api, path), 'INVALID_API_KEY');
  });

  test('gets responses that no cache keeps and no page of another origin reads', async () => {
    const { status, headers } = await stack.api('GET', '/topics');
    expect([status, headers.get('cache-control')]).toEqual([200, 'no-store']);
    expect(headers.get('access-control-allow-origin')).toBeNull();
  });
});

test('the last value of a field that is given twice counts', async () => {
  const body = `{"to":"nobody","data":{"a":1},"to":"${token}","data":{"b":2}}`;
  const { json } = await stack.api<{ id: string; info: object }>('POST', '/push', body);
  expect(json.info).toEqual({ devices: 1, failed: [] });
  expect((await getPushStatus(stack, json.id)).payload).toEqual({ b: 2 });
});

test('a device that is named and subscribed is one recipient', async () => {
  const topics = [`both-${token}`];
  await stack.api('POST', '/topics/subscribe', { token, topics });
  const { token: other } = await registerDevice(stack.dev);
  const to = [`/topics/${topics[0]}`, token, other];
  const { json } = await stack.api<{ id: string }>('POST', '/push', { to, data: {} });
  const { pending_devices: pending } = await getPushStatus(stack, json.id);
  expect(pending.toSorted()).toEqual([token, other].toSorted());
});

/** A bit for each token of the request is 12,500 bytes. */
const KEPT_BYTES = 20_000;
const UNKNOWN = 99_999;

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
