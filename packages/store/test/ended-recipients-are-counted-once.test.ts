import { OUTCOMES } from '@carillon/core/outcomes';
import { FINAL_OUTCOMES, processCounts } from '@carillon/core/process-counts';
import { beforeAll, describe, expect, test } from '@jest/globals';
import {
  acknowledge,
  deliver,
  expire,
  insertPush,
  newTokens,
  RETENTION_MS,
  SHAPES,
  type StoreUnderTest,
  type TestPush,
} from './store-under-test.ts';
import { useStore } from './use-store.ts';

/** Enough for two processes to race in every order. */
const PUSHES = 20;

const database = useStore();
let other: StoreUnderTest['store'];
beforeAll(async () => {
  other = await database.connect();
});

/** Returns the outcomes that are counted during a call. */
async function countDuring(call: () => Promise<unknown>): Promise<Record<string, number>> {
  const before = { ...processCounts.recipients.get('mqtt') };
  await call();
  const after = processCounts.recipients.get('mqtt');
  const entries = FINAL_OUTCOMES.map((name) => [name, (after?.[name] ?? 0) - (before[name] ?? 0)]);
  return Object.fromEntries(entries.filter(([, n]) => n !== 0));
}

/** Two processes end the push at the same moment. */
const completeTwice = ({ id }: TestPush) =>
  Promise.all(
    [database.store, other].map((store) => store.pushCompletion.completeIfDone(id, RETENTION_MS)),
  );

/** Delivers a push whose recipients are all offline except the first. */
async function deliverToInboxes(push: TestPush): Promise<void> {
  const [, ...offline] = push.tokens;
  const outcomes = Object.fromEntries(offline.map((token) => [token, OUTCOMES.inbox]));
  await deliver(database.store, push, outcomes);
}

async function markDeleted({ id }: TestPush): Promise<void> {
  const { app } = (await database.pushes.findOne({ _id: id })) ?? { app: '' };
  await database.store.pushCompletion.markDeleted(app, id);
}

describe.each(SHAPES)('recipients of a push, %s', (shape) => {
  const insert = (count: number, collapse?: string) =>
    insertPush(database, newTokens(count), { shape, ...(collapse && { collapse }) });

  test('receipts are counted when they arrive, the rest when the push expires', async () => {
    const pushes: TestPush[] = [];
    for (let n = 0; n < PUSHES; n += 1) pushes.push(await insert(4));
    for (const push of pushes) await deliverToInboxes(push);
    const acknowledgeAll = async () => {
      for (const push of pushes) await acknowledge(database, push, push.tokens[1] ?? '');
    };
    expect(await countDuring(acknowledgeAll)).toEqual({ delivered: PUSHES });
    // The receipt of a device that sends it twice.
    expect(await countDuring(acknowledgeAll)).toEqual({});
    for (const push of pushes) await expire(database, push);
    const completeAll = () => Promise.all(pushes.map(completeTwice));
    expect(await countDuring(completeAll)).toEqual({ expired: 2 * PUSHES });
    expect(await countDuring(completeAll)).toEqual({});
  });

  test('those of a push that is deleted before a worker claims it are counted', async () => {
    const push = await insert(3);
    await markDeleted(push);
    expect(await countDuring(() => completeTwice(push))).toEqual({ deleted: 3 });
  });

  test('those that a newer push of the collapse key has replaced are counted', async () => {
    const older = await insert(3, 'key');
    await deliverToInboxes(older);
    const newer = await insertPush(database, older.tokens, { shape, collapse: 'key' });
    await deliverToInboxes(newer);
    expect(await countDuring(() => completeTwice(older))).toEqual({ superseded: 2 });
    await expire(database, newer);
    expect(await countDuring(() => completeTwice(newer))).toEqual({ expired: 2 });
  });

  test('those whose device is deleted are counted', async () => {
    const push = await insert(2);
    await deliverToInboxes(push);
    const [, token = ''] = push.tokens;
    const clear = () => database.store.deletedDevices.clearLeftovers('app', token);
    expect(await countDuring(clear)).toEqual({ gone: 1 });
    expect(await countDuring(() => completeTwice(push))).toEqual({});
  });
});
