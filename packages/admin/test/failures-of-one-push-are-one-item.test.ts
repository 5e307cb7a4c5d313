import { failureCode } from '@carillon/core/outcomes';
import { expect, test } from '@jest/globals';
import { deliver, insertPush, newTokens } from '../../store/test/store-under-test.ts';
import { useStore } from '../../store/test/use-store.ts';
import { listFailures } from '../src/failures.ts';

const APP = 'a'.repeat(24);
const REJECTED = failureCode('rejected-by-provider');

const database = useStore();

test('batches of one push are one item, and each page continues after the last one', async () => {
  const ids: string[] = [];
  for (const shape of ['in the push', 'in two batches'] as const) {
    const tokens = newTokens(4);
    const push = await insertPush(database, tokens, { shape });
    const codes = Object.fromEntries(tokens.map((token) => [token, REJECTED]));
    await deliver(database.store, push, { ...codes, [tokens[0] ?? '']: failureCode('inbox-full') });
    ids.unshift(push.id);
  }
  const reasons = [
    { reason: 'rejected-by-provider', text: 'rejected-by-provider', count: 3 },
    { reason: 'inbox-full', text: 'inbox-full', count: 1 },
  ];
  const all = await listFailures(database.store, APP, { limit: 10 });
  expect(all.items).toMatchObject(
    ids.map((push) => ({ push, channel: 'mqtt', failed: 4, redriven: 0, reasons })),
  );
  expect(all.next).toBeUndefined();
  const first = await listFailures(database.store, APP, { limit: 2 });
  expect(first.items.map(({ push }) => push)).toEqual(ids.slice(0, 1));
  const second = await listFailures(database.store, APP, { limit: 2, cursor: first.next });
  expect(second.items.map(({ push }) => push)).toEqual(ids.slice(1));
  const unreadable = await listFailures(database.store, APP, { limit: 10, cursor: '$ne' });
  expect(unreadable).toEqual(all);
});
