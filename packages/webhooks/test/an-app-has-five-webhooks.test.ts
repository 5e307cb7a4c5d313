import { newObjectId } from '@carillon/core/ids';
import { boxKeyOf } from '@carillon/core/sealed-box';
import { parseSealingKeys } from '@carillon/core/sealing';
import { WEBHOOK_LIMITS } from '@carillon/core/webhooks';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { TestStore } from '../../../test/support/open-store.ts';
import { type StoreUnderTest, startStore } from '../../store/test/store-under-test.ts';
import { addWebhook } from '../src/manage-webhooks.ts';

const ADDRESS = new URL('https://backend.example.com/hook');
const CALLS = 20;

let database: StoreUnderTest;
let stores: TestStore[];
beforeAll(async () => {
  database = await startStore();
  // Two processes: a lock in memory has no effect.
  stores = [database.store, await database.connect()];
  await database.store.webhooks.putBoxKey(boxKeyOf(parseSealingKeys(`1:${'0'.repeat(64)}`)));
});
afterAll(() => database?.stop());

async function add(app: string, n = 0): Promise<string> {
  const added = await addWebhook(stores[n % 2] ?? database.store, app, ADDRESS);
  return typeof added === 'string' ? added : 'added';
}

async function addAtOnce(app: string): Promise<{ added: number; refused: number }> {
  const results = await Promise.all(Array.from({ length: CALLS }, (_, n) => add(app, n)));
  return {
    added: results.filter((result) => result === 'added').length,
    refused: results.filter((result) => result === 'limit').length,
  };
}

test('at most five of concurrent additions succeed', async () => {
  const [app, other] = [newObjectId(), newObjectId()];
  const all = { added: WEBHOOK_LIMITS.perApp, refused: CALLS - WEBHOOK_LIMITS.perApp };
  expect(await Promise.all([app, other].map(addAtOnce))).toEqual([all, all]);
  expect(await database.store.webhooks.list(app)).toHaveLength(WEBHOOK_LIMITS.perApp);
});

test('a removed webhook frees its slot, whichever it is', async () => {
  const app = newObjectId();
  await addAtOnce(app);
  for (let n = 0; n < WEBHOOK_LIMITS.perApp; n += 1) {
    const webhooks = await database.store.webhooks.list(app);
    await database.store.webhooks.remove(app, webhooks[n]?._id ?? '');
    expect(await addAtOnce(app)).toEqual({ added: 1, refused: CALLS - 1 });
  }
});
