import { fallbackBatchId } from '@carillon/core/ids';
import { OUTCOMES } from '@carillon/core/outcomes';
import { processCounts } from '@carillon/core/process-counts';
import { describe, expect, test } from '@jest/globals';
import { Binary } from 'mongodb';
import type { TestStore } from '../../../test/support/open-store.ts';
import { createBatch } from '../src/create-batches.ts';
import { type Crossing, useCrossings } from './crossings.ts';
import {
  acknowledge,
  countOutcomes,
  deliver,
  expire,
  insertPush,
  newTokens,
  RETENTION_MS,
  readOutcomes,
  SHAPES,
  type Shape,
  type TestPush,
} from './store-under-test.ts';
import { useStore } from './use-store.ts';

const database = useStore();
const { store } = database;
const cross = useCrossings(database);

type Call = (by: TestStore, push: TestPush) => Promise<unknown>;

const insert = (shape: Shape) => insertPush(database, newTokens(2), { shape });

/** Delivers a push to devices that are all offline. */
const deliverToInboxes: Call = (by, push) =>
  deliver(by, push, Object.fromEntries(push.tokens.map((token) => [token, OUTCOMES.inbox])));

async function insertInInboxes(shape: Shape): Promise<TestPush> {
  const push = await insert(shape);
  await deliverToInboxes(store, push);
  return push;
}

async function insertExpired(shape: Shape): Promise<TestPush> {
  const push = await insertInInboxes(shape);
  await expire(database, push);
  return push;
}

const complete: Call = (by, { id }) => by.pushCompletion.completeIfDone(id, RETENTION_MS);

const acknowledgeAll: Call = async (by, push) => {
  for (const token of push.tokens) await acknowledge({ ...database, store: by }, push, token);
};

/** Completes a push, then checks that it is over and returns its outcomes, on which counts and recipients agree. */
async function endedOutcomes(push: TestPush): Promise<string[]> {
  await complete(store, push);
  const { outcomes, counts } = await readOutcomes(store, push);
  expect(counts).toEqual(countOutcomes(outcomes));
  const stored = await database.pushes.findOne({ _id: push.id });
  expect([stored?.counts, stored?.ending]).toEqual([counts, undefined]);
  expect(await database.inbox.countDocuments({ push: push.id })).toBe(0);
  return outcomes.map(String);
}

/** Crosses two calls for pushes, each of them held in turn. Returns the outcomes of the pushes, each named once. */
async function crossBoth(
  given: () => Promise<TestPush>,
  [first, second]: readonly [Call, Call],
  check = endedOutcomes,
): Promise<string[]> {
  const seen = new Set<string>();
  const crossing: Omit<Crossing<TestPush>, 'held' | 'meanwhile'> = {
    given,
    check: async (push) => {
      for (const outcome of await check(push)) seen.add(outcome);
    },
  };
  await cross({ ...crossing, held: first, meanwhile: second });
  await cross({ ...crossing, held: second, meanwhile: first });
  return [...seen].sort();
}

test.each(SHAPES)(
  'a push is delivered or deleted, or both in part, recipients %s',
  async (shape) => {
    const end: Call = async (by, push) => {
      const { app = '' } = (await database.pushes.findOne({ _id: push.id })) ?? {};
      await by.pushCompletion.markDeleted(app, push.id);
      await complete(by, push);
    };
    const calls = [(by: TestStore, push: TestPush) => deliver(by, push, {}), end] as const;
    expect(await crossBoth(() => insert(shape), calls)).toEqual(['deleted', 'delivered']);
  },
);

describe.each(SHAPES)('recipients %s:', (shape) => {
  test('a recipient whose receipt arrives while its batch is settled is delivered', async () => {
    const ends = await crossBoth(
      () => insert(shape),
      [deliverToInboxes, acknowledgeAll],
      async (push) => {
        // The worker removes the rows of receipts that it finds in the settled batch.
        await store.inbox.remove(
          push.id,
          push.tokens.map((token) => `${token}:${push.id}`),
        );
        return endedOutcomes(push);
      },
    );
    expect(ends).toEqual(['delivered']);
  });

  test('a recipient whose receipt arrives while the push expires is delivered or expired', async () => {
    const ends = await crossBoth(() => insertExpired(shape), [complete, acknowledgeAll]);
    expect(ends).toEqual(['delivered', 'expired']);
  });

  test('a row replaced while its push expires is superseded or expired', async () => {
    const newer = new Map<string, TestPush>();
    const given = async () => {
      const tokens = newTokens(2);
      const key = { shape, collapse: `c-${tokens[0]}` };
      const push = await insertPush(database, tokens, key);
      await deliverToInboxes(store, push);
      await expire(database, push);
      newer.set(push.id, await insertPush(database, tokens, key));
      return push;
    };
    const replace: Call = (by, { id }) => deliverToInboxes(by, newer.get(id) as TestPush);
    expect(await crossBoth(given, [complete, replace])).toEqual(['expired', 'superseded']);
    for (const one of newer.values())
      expect((await readOutcomes(store, one)).outcomes).toEqual(['inbox', 'inbox']);
  });

  test('a device deleted while its receipt arrives and the push ends is delivered or gone', async () => {
    const leave: Call = async (by, push) => {
      for (const token of push.tokens) await by.deletedDevices.clearLeftovers('app', token);
      await complete(by, push);
    };
    const receive: Call = (by, push) => acknowledgeAll(by, push).then(() => complete(by, push));
    const ends = await crossBoth(() => insertInInboxes(shape), [leave, receive]);
    expect(ends).toEqual(['delivered', 'gone']);
  });

  /** An expired push: one device has acknowledged, and FCM has accepted it for another. */
  async function insertWithFallback(): Promise<TestPush> {
    const push = await insertPush(database, newTokens(4), { shape });
    const [first = '', second = '', third = ''] = push.tokens;
    await deliverToInboxes(store, push);
    await acknowledge(database, push, third);
    const work = createBatch('fcm', [first, second], 'closed', new Date());
    const outcomes = new Binary(Uint8Array.of(OUTCOMES.gone, OUTCOMES.sent));
    await database.batches.insertOne({
      ...{ _id: fallbackBatchId(push.batchIds[0] ?? ''), push: push.id, app: 'a'.repeat(24) },
      ...{ from: first, to: second, work: { ...work, fallback: true, outcomes } },
    });
    await expire(database, push);
    return push;
  }

  test('processes that end a push count each recipient once, with its strongest outcome', async () => {
    const before = { ...processCounts.recipients.get('mqtt') };
    let ended = 0;
    await cross({
      given: insertWithFallback,
      held: complete,
      meanwhile: complete,
      async check(push) {
        ended += 1;
        expect(await endedOutcomes(push)).toEqual(['expired', 'sent', 'delivered', 'expired']);
      },
    });
    const after = processCounts.recipients.get('mqtt');
    for (const [outcome, count] of Object.entries({ expired: 2, sent: 1, delivered: 1 }) as [
      'sent',
      number,
    ][])
      expect((after?.[outcome] ?? 0) - (before[outcome] ?? 0)).toBe(count * ended);
  });

  test('a request while a push ends shows no outcome that the push does not have', async () => {
    const seen = new Set<string | undefined>();
    const request: Call = async ({ deliveryStatus }, { id, tokens }) => {
      const status = await deliveryStatus.statusOfPush(id);
      for (const outcome of Object.keys(status?.outcomes ?? {})) seen.add(outcome);
      for (const token of tokens)
        seen.add((await deliveryStatus.statusOfRecipient(id, token))?.outcome);
    };
    await crossBoth(insertWithFallback, [complete, request]);
    expect([...seen].sort()).toEqual(['delivered', 'expired', 'inbox', 'sent']);
  });
});
