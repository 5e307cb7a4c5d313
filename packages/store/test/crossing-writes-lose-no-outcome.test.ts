import { OUTCOMES } from '@carillon/core/outcomes';
import { FINAL_OUTCOMES, processCounts } from '@carillon/core/process-counts';
import { describe, expect, test } from '@jest/globals';
import type { TestStore } from '../../../test/support/open-store.ts';
import { type Crossing, useCrossings } from './crossings.ts';
import {
  APP,
  acknowledge,
  complete,
  countOutcomes,
  deliver,
  deliverToInboxes,
  expire,
  insertPush,
  LEASE_MS,
  markDeleted,
  newTokens,
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

/** FCM has accepted a push for devices of its first batch, and their rows end. */
async function answerFallback(
  by: TestStore,
  { id, batchIds: [batch = ''] }: TestPush,
  sent: readonly string[],
): Promise<void> {
  const rowIds = sent.map((token) => `${token}:${id}`);
  const ended = { sent, done: sent, rowIds, refused: [] };
  await by.receipts.recordFallback(batch, { app: APP, push: id, ...ended });
}

/** Returns the outcomes that are counted during a call. */
async function countDuring(call: () => Promise<unknown>): Promise<Record<string, number>> {
  const before = { ...processCounts.recipients.get('mqtt') };
  await call();
  const after = processCounts.recipients.get('mqtt');
  const entries = FINAL_OUTCOMES.map((name) => [name, (after?.[name] ?? 0) - (before[name] ?? 0)]);
  return Object.fromEntries(entries.filter(([, n]) => n !== 0));
}

describe.each(SHAPES)('recipients %s:', (shape) => {
  test('one of two workers that claim a batch gets it', async () => {
    const claims = new Map<string, number>();
    const claim: Call = async (by, { batchIds }) => {
      for (const id of batchIds) {
        const claimed = await by.batchTable.claim(id, 'reply', LEASE_MS);
        if (claimed !== undefined) claims.set(id, (claims.get(id) ?? 0) + 1);
      }
    };
    const countClaims = async ({ batchIds }: TestPush) =>
      batchIds.map((id) => `claims: ${claims.get(id) ?? 0}`);
    const seen = await crossBoth(() => insert(shape), [claim, claim], countClaims);
    expect(seen).toEqual(['claims: 1']);
  });

  test('a recipient of a push that is deleted during its delivery is delivered or deleted', async () => {
    const end: Call = async (by, push) => {
      await markDeleted(by, push);
      await complete(by, push);
    };
    const ends = await crossBoth(() => insert(shape), [(by, push) => deliver(by, push, {}), end]);
    expect(ends).toEqual(['deleted', 'delivered']);
  });

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

  test.each([
    ['is settled', insert, deliverToInboxes, ['sent']],
    ['expires', insertExpired, complete, ['expired', 'sent']],
    ['is acknowledged', insertInInboxes, acknowledgeAll, ['delivered']],
  ] as const)('a recipient that FCM accepts while its push %s is one of %j', async (...row) => {
    const [, given, call, expected] = row;
    const sendAll: Call = (by, push) => answerFallback(by, push, push.tokens.slice(0, 1));
    const ends = await crossBoth(
      () => given(shape),
      [call, sendAll],
      async (push) => {
        await store.inbox.remove(
          push.id,
          push.tokens.map((token) => `${token}:${push.id}`),
        );
        return (await endedOutcomes(push)).slice(0, 1);
      },
    );
    expect(ends).toEqual(expected);
  });

  async function insertOlderAndNewer(): Promise<[TestPush, TestPush]> {
    const tokens = newTokens(2);
    const key = { shape, collapse: `c-${tokens[0]}` };
    const older = await insertPush(database, tokens, key);
    await deliverToInboxes(store, older);
    return [older, await insertPush(database, tokens, key)];
  }

  test('a row replaced while its push expires is superseded or expired', async () => {
    const newer = new Map<string, TestPush>();
    const given = async () => {
      const [older, next] = await insertOlderAndNewer();
      await expire(database, older);
      newer.set(older.id, next);
      return older;
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
    const [, second = '', third = ''] = push.tokens;
    await deliverToInboxes(store, push);
    await acknowledge(database, push, third);
    await answerFallback(store, push, [second]);
    await expire(database, push);
    return push;
  }

  test('processes that end a push count each recipient once, with its strongest outcome', async () => {
    let ended = 0;
    const counted = await countDuring(() =>
      cross({
        given: insertWithFallback,
        held: complete,
        meanwhile: complete,
        async check(push) {
          ended += 1;
          expect(await endedOutcomes(push)).toEqual(['expired', 'sent', 'delivered', 'expired']);
        },
      }),
    );
    expect(counted).toEqual({ expired: 2 * ended, sent: ended, delivered: ended });
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

  test('receipts are counted when they arrive, the rest when the push expires, and each once', async () => {
    const push = await insertPush(database, newTokens(4), { shape });
    const [online = '', early = ''] = push.tokens;
    await deliverToInboxes(store, push, online);
    const receive = () => acknowledge(database, push, early);
    expect(await countDuring(receive)).toEqual({ delivered: 1 });
    // The receipt of a device that sends it twice.
    expect(await countDuring(receive)).toEqual({});
    await expire(database, push);
    expect(await countDuring(() => complete(store, push))).toEqual({ expired: 2 });
    expect(await countDuring(() => complete(store, push))).toEqual({});
  });

  test('recipients of a push that is deleted before a worker claims it are counted', async () => {
    const push = await insert(shape);
    await markDeleted(store, push);
    expect(await countDuring(() => complete(store, push))).toEqual({ deleted: 2 });
  });

  test('recipients with an outcome that a worker has saved are not counted again by the end of their push', async () => {
    const push = await insertPush(database, newTokens(4), { shape });
    for (const id of push.batchIds) {
      const batch = await store.batchTable.claim(id, 'reply', 0);
      if (batch === undefined) throw new Error(`${id} was not claimed`);
      const outcomes = new Uint8Array(batch.work.n).fill(OUTCOMES.delivered, 0, 1);
      await store.batchTable.saveOutcomes({
        ...batch,
        outcomes,
        latenciesMs: new Uint32Array(batch.work.n),
      });
    }
    await expire(database, push);
    const saved = push.batchIds.length;
    expect(await countDuring(() => complete(store, push))).toEqual({ expired: 4 - saved });
    const status = await store.deliveryStatus.statusOfPush(push.id);
    expect(status?.outcomes).toEqual({ delivered: saved, expired: 4 - saved });
  });

  test('recipients that a newer push of the collapse key has replaced are counted', async () => {
    const [older, newer] = await insertOlderAndNewer();
    await deliverToInboxes(store, newer);
    expect(await countDuring(() => complete(store, older))).toEqual({ superseded: 2 });
    await expire(database, newer);
    expect(await countDuring(() => complete(store, newer))).toEqual({ expired: 2 });
  });

  test('recipients whose device is deleted are counted', async () => {
    const push = await insertInInboxes(shape);
    const clear = () => store.deletedDevices.clearLeftovers('app', push.tokens[1] ?? '');
    expect(await countDuring(clear)).toEqual({ gone: 1 });
    expect(await countDuring(() => complete(store, push))).toEqual({});
  });
});
