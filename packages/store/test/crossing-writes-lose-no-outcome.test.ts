import { setTimeout as sleep } from 'node:timers/promises';
import { OUTCOMES } from '@carillon/core/outcomes';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { TestStore } from '../../../test/support/open-store.ts';
import {
  acknowledge,
  countOutcomes,
  deliver,
  expire,
  insertPush,
  LEASE_MS,
  newTokens,
  RETENTION_MS,
  readOutcomes,
  SHAPES,
  type Shape,
  type StoreUnderTest,
  startStore,
  type TestPush,
} from './store-under-test.ts';

/** Enough for the two sides to cross in every order. */
const PUSHES = 64;
const EVERY_MS = 4;
const MAX_OFFSET_MS = 8;

let database: StoreUnderTest;
/** Two processes. */
let store: TestStore;
let other: TestStore;
beforeAll(async () => {
  database = await startStore();
  store = database.store;
  other = await database.connect();
});
afterAll(async () => {
  await database?.stop();
});

/** Runs two calls for each push, the second up to 8 ms before or after the first; one push after the other begins. */
async function cross(
  pushes: readonly TestPush[],
  first: (push: TestPush) => Promise<unknown>,
  second: (push: TestPush) => Promise<unknown>,
): Promise<void> {
  await Promise.all(
    pushes.flatMap((push, index) => {
      const offsetMs = (index % (2 * MAX_OFFSET_MS + 1)) - MAX_OFFSET_MS;
      const startMs = MAX_OFFSET_MS + index * EVERY_MS;
      return [
        sleep(startMs).then(() => first(push)),
        sleep(startMs + offsetMs).then(() => second(push)),
      ];
    }),
  );
}

/** Prepares or checks all pushes concurrently: they are independent of each other. */
async function each(
  pushes: readonly TestPush[],
  task: (push: TestPush) => Promise<unknown>,
): Promise<void> {
  await Promise.all(pushes.map(task));
}

async function insertPushes(shape: Shape, collapse = false): Promise<TestPush[]> {
  return Promise.all(
    Array.from({ length: PUSHES }, () => {
      const tokens = newTokens(2);
      return insertPush(database, tokens, {
        shape,
        ...(collapse && { collapse: `c-${tokens[0]}` }),
      });
    }),
  );
}

const inInbox = ({ tokens }: TestPush) =>
  Object.fromEntries(tokens.map((token) => [token, OUTCOMES.inbox]));

const complete = (by: TestStore, { id }: TestPush) =>
  by.pushCompletion.completeIfDone(id, RETENTION_MS);

async function markDeleted({ id }: TestPush): Promise<void> {
  const push = await database.pushes.findOne({ _id: id });
  await other.pushCompletion.markDeleted(push?.app ?? '', id);
}

/** Completes each push, then checks that it is over and returns its outcomes, on which counts and recipients agree. */
async function endedOutcomes(push: TestPush): Promise<string[]> {
  await complete(store, push);
  const { outcomes, counts } = await readOutcomes(store, push);
  expect(counts).toEqual(countOutcomes(outcomes));
  const stored = await database.pushes.findOne({ _id: push.id });
  expect([stored?.counts, stored?.ending]).toEqual([counts, undefined]);
  expect(await database.inbox.countDocuments({ push: push.id })).toBe(0);
  return outcomes.map(String);
}

/** Collects the outcomes of ended pushes, each named once. */
async function allOutcomes(pushes: readonly TestPush[]): Promise<string[]> {
  const all = await Promise.all(pushes.map(endedOutcomes));
  return [...new Set(all.flat())].sort();
}

/** Expects outcomes, of which each recipient has one. */
function expectOnly(outcomes: readonly string[], allowed: readonly string[]): void {
  expect(outcomes.filter((outcome) => !allowed.includes(outcome))).toEqual([]);
}

describe.each(SHAPES)('recipients %s:', (shape) => {
  test('one of two workers that claim a batch gets it', async () => {
    const pushes = await insertPushes(shape);
    const claims = new Map<string, number>();
    const claim = async (by: TestStore, { batchIds }: TestPush) => {
      for (const id of batchIds) {
        const claimed = await by.batchTable.claim(id, 'reply', LEASE_MS);
        if (claimed !== undefined) claims.set(id, (claims.get(id) ?? 0) + 1);
      }
    };
    await cross(
      pushes,
      (push) => claim(store, push),
      (push) => claim(other, push),
    );
    expect([...claims.values()]).toEqual(pushes.flatMap(({ batchIds }) => batchIds.map(() => 1)));
  });

  test('each recipient of a push deleted during its delivery is delivered or deleted', async () => {
    const pushes = await insertPushes(shape);
    await cross(
      pushes,
      (push) => deliver(store, push, {}),
      async (push) => {
        await markDeleted(push);
        await complete(other, push);
      },
    );
    expectOnly(await allOutcomes(pushes), ['delivered', 'deleted']);
  });

  test('a recipient whose receipt arrives while its batch is settled is delivered', async () => {
    const pushes = await insertPushes(shape);
    await cross(
      pushes,
      (push) => deliver(store, push, inInbox(push)),
      async (push) => {
        for (const token of push.tokens)
          await acknowledge({ ...database, store: other }, push, token);
      },
    );
    // The worker removes the rows of receipts that it finds in the settled batch.
    await each(pushes, ({ id, tokens }) =>
      store.inbox.remove(
        id,
        tokens.map((token) => `${token}:${id}`),
      ),
    );
    expect(await allOutcomes(pushes)).toEqual(['delivered']);
  });

  test('a recipient whose receipt arrives while the push expires is delivered or expired', async () => {
    const pushes = await insertPushes(shape);
    await each(pushes, async (push) => {
      await deliver(store, push, inInbox(push));
      await expire(database, push);
    });
    await cross(
      pushes,
      (push) => complete(store, push),
      (push) => acknowledge({ ...database, store: other }, push, push.tokens[0] ?? ''),
    );
    expectOnly(await allOutcomes(pushes), ['delivered', 'expired']);
  });

  test('outcomes of a push that two processes end are counted once', async () => {
    const pushes = await insertPushes(shape);
    await each(pushes, async (push) => {
      await deliver(store, push, inInbox(push));
      await acknowledge(database, push, push.tokens[0] ?? '');
      await expire(database, push);
    });
    await cross(
      pushes,
      (push) => complete(store, push),
      (push) => complete(other, push),
    );
    await each(pushes, async (push) =>
      expect(await endedOutcomes(push)).toEqual(['delivered', 'expired']),
    );
  });

  test('a row replaced while its push expires is superseded or expired', async () => {
    const pushes = await insertPushes(shape, true);
    const newer = new Map<string, TestPush>();
    await each(pushes, async (push) => {
      await deliver(store, push, inInbox(push));
      await expire(database, push);
      const collapse = push.collapse ?? '';
      newer.set(push.id, await insertPush(database, push.tokens, { collapse }));
    });
    await cross(
      pushes,
      (push) => complete(store, push),
      async (push) => {
        const one = newer.get(push.id) as TestPush;
        await deliver(other, one, inInbox(one));
      },
    );
    expectOnly(await allOutcomes(pushes), ['superseded', 'expired']);
    await each([...newer.values()], async (one) =>
      expect((await readOutcomes(store, one)).outcomes).toEqual(['inbox', 'inbox']),
    );
  });

  test('a device deleted while its receipt arrives and the push ends is delivered or gone', async () => {
    const pushes = await insertPushes(shape);
    await each(pushes, (push) => deliver(store, push, inInbox(push)));
    await cross(
      pushes,
      async (push) => {
        for (const token of push.tokens) await store.deletedDevices.clearLeftovers('app', token);
        await complete(store, push);
      },
      async (push) => {
        for (const token of push.tokens)
          await acknowledge({ ...database, store: other }, push, token);
        await complete(other, push);
      },
    );
    expectOnly(await allOutcomes(pushes), ['delivered', 'gone']);
  });
});
