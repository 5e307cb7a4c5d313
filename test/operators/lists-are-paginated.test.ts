import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Binary } from 'mongodb';
import { OUTCOMES } from '../../packages/core/src/outcomes.ts';
import {
  ACCOUNT,
  APP,
  batchInInbox,
  embeddedBatch,
  insertDocuments,
  push,
} from '../../packages/store/test/document-fixtures.ts';
import { startTestDatabase, type TestDatabase } from '../support/test-database.ts';

const now = new Date();
const idOf = (n: number) => `0190000000${n}0000000000aa`;
const SENT = new Binary(Uint8Array.of(OUTCOMES.sent, OUTCOMES.sent, OUTCOMES.sent));

let database: TestDatabase;
beforeAll(async () => {
  database = await startTestDatabase();
  const { db } = database;
  const names = ['1', '2', '3'].map((n) => n.repeat(24));
  const account = { plan: 'pro', createdAt: now };
  await insertDocuments(db, 'accounts', ...names.map((_id) => ({ ...account, _id, name: _id })));
  await insertDocuments(db, 'apps', { _id: APP, account: ACCOUNT, name: 'One', createdAt: now });
  await insertDocuments(
    db,
    'apps',
    ...names.map((_id) => ({ _id, account: _id, name: 'x', createdAt: now })),
  );
  const device = { app: APP, platform: 'web', registeredAt: now, lastActiveAt: now };
  await insertDocuments(db, 'devices', { ...device, _id: 'device1', unsubscribed: true });
  await insertDocuments(db, 'devices', { ...device, _id: 'device2' });
  await insertDocuments(
    db,
    'pushes',
    push({ _id: idOf(1), work: embeddedBatch({ state: 'closed', outcomes: SENT }) }),
    push({ _id: idOf(2), work: batchInInbox() }),
    push({ _id: idOf(3), topics: ['news'], devices: 5_000 }),
    push({ _id: idOf(4), work: { ...embeddedBatch(), tokens: 'device11 device2', n: 2 } }),
    push({ _id: idOf(5), state: 'accepting', work: embeddedBatch() }),
  );
  const rows = [2, 3].map((n) => ({ _id: `device1:${idOf(n)}`, push: idOf(n), work: idOf(n) }));
  await insertDocuments(db, 'inbox', ...rows.map((row) => ({ ...row, position: 0 })));
});
afterAll(() => database?.stop());

/** The ids of all entries, read in pages of two. */
async function inPages(cursor: string, ...args: string[]): Promise<string[]> {
  const ids: string[] = [];
  for (;;) {
    const next = ids.length === 0 ? [] : [cursor, ids.at(-1) ?? ''];
    const page = await database.runJson<{ id?: string; token?: string }[]>(
      ...[...args, '--limit', '2', ...next],
    );
    ids.push(...page.map(({ id, token }) => id ?? token ?? ''));
    if (page.length < 2) return ids;
  }
}

describe('lists', () => {
  test('of accounts, apps and devices continue after the last entry of the previous page', async () => {
    const ids = ['1', '2', '3'].map((n) => n.repeat(24));
    expect(await inPages('--after', 'account', 'list')).toEqual(ids);
    expect(await inPages('--after', 'app', 'list')).toEqual([...ids, APP]);
    expect(await inPages('--after', 'app', 'list', '--account', ACCOUNT)).toEqual([APP]);
    const devices = await inPages('--after', 'device', 'list', '--app', APP);
    expect(devices).toEqual(['device1', 'device2']);
  });

  test('of pushes begin with the newest, and leave out pushes that are not accepted yet', async () => {
    const ids = await inPages('--before', 'push', 'list', '--app', APP);
    expect(ids).toEqual([4, 3, 2, 1].map(idOf));
    const [, third] = await database.runJson<object[]>('push', 'list', '--app', APP);
    expect(third).toMatchObject({ state: 'open', devices: 5_000, topics: ['news'] });
  });

  test('name the option for the next page in their text', async () => {
    const { out } = await database.run('push', 'list', '--app', APP, '--limit', '1');
    expect(out).toContain(`--before ${idOf(4)}`);
    const { out: devices } = await database.run('device', 'list', '--app', APP);
    expect(devices).toMatch(/^device1 .*, unsubscribed\ndevice2 .*Z\n$/);
  });
});

describe('pushes of a device', () => {
  test('are those of its inbox, and those of one batch that names it', async () => {
    const found = await database.runJson<object[]>('device', 'pushes', 'device1');
    expect(found).toEqual([
      expect.objectContaining({ id: idOf(3), outcome: 'inbox' }),
      expect.objectContaining({ id: idOf(2), outcome: 'inbox' }),
      expect.objectContaining({ id: idOf(1), outcome: 'sent' }),
    ]);
    const ids = await inPages('--before', 'device', 'pushes', 'device1');
    expect(ids).toEqual([3, 2, 1].map(idOf));
  });

  test('that were replaced by a newer one are superseded', async () => {
    const found = await database.runJson<object[]>(
      'device',
      'pushes',
      'device2',
      '--before',
      idOf(3),
    );
    expect(found).toContainEqual(expect.objectContaining({ id: idOf(2), outcome: 'superseded' }));
  });

  test.each(['nobody', '.*'])('of %s are refused', async (token) => {
    expect(await database.run('device', 'pushes', token)).toMatchObject({ code: 1 });
  });
});

describe('names of an app', () => {
  test('can be set and removed for several apps', async () => {
    for (const id of [APP, '1'.repeat(24)]) {
      const named = ['app', 'set', id, '--bundle-id', 'com.example.a', '--web-host', 'A.Example'];
      expect(await database.runJson(...named)).toMatchObject({ webHosts: ['a.example'] });
      const bare = await database.runJson('app', 'set', id, '--no-bundle-id', '--no-web-host');
      expect(bare).toMatchObject({ id, bundleIds: [], webHosts: [] });
    }
  });
});
