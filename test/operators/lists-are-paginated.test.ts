import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Binary } from 'mongodb';
import { hashToken } from '../../packages/core/src/batch.ts';
import { batchId, newPushId } from '../../packages/core/src/ids.ts';
import { OUTCOMES } from '../../packages/core/src/outcomes.ts';
import { createBatchDocument } from '../../packages/store/src/create-batches.ts';
import {
  ACCOUNT,
  APP,
  batchInInbox,
  embeddedBatch,
  insertDocuments,
  push,
  TOKENS,
} from '../../packages/store/test/document-fixtures.ts';
import { startTestDatabase, type TestDatabase } from '../support/test-database.ts';

const now = new Date();
const idOf = (n: number) => `0190000000${n}00000000000aa`;
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
  const tokenHashes = TOKENS.map(hashToken);
  const twins = { tokens: 'device11 device2', n: 2 };
  await insertDocuments(
    db,
    'pushes',
    push({ _id: idOf(1), work: embeddedBatch({ state: 'closed', outcomes: SENT }), tokenHashes }),
    push({ _id: idOf(2), work: batchInInbox(), collapse: 'c', tokenHashes }),
    push({ _id: idOf(3), topics: ['news'], devices: 5_000 }),
    push({ _id: idOf(4), work: { ...embeddedBatch(), ...twins }, tokenHashes }),
    push({ _id: idOf(5), state: 'accepting', work: embeddedBatch(), tokenHashes }),
  );
  const owner = { _id: idOf(3), app: APP };
  const inbox = new Binary(Uint8Array.of(OUTCOMES.inbox));
  const batch = createBatchDocument(owner, 'mqtt', ['device1'], 0, 'ready', now);
  await insertDocuments(
    db,
    'batches',
    { ...batch, work: { ...batch.work, state: 'closed', outcomes: inbox } },
    createBatchDocument(owner, 'web-push', ['device2'], 1, 'waiting', now),
  );
  const rows = [
    { _id: 'device1:~c', push: idOf(2), work: idOf(2) },
    { _id: `device1:${idOf(3)}`, push: idOf(3), work: batchId(idOf(3), 0) },
  ];
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
  test('are in batches of every number and state', async () => {
    const found = await database.runJson<object[]>('device', 'pushes', 'device1');
    expect(found).toEqual([
      expect.objectContaining({ id: idOf(3), outcome: 'inbox' }),
      expect.objectContaining({ id: idOf(2), outcome: 'inbox' }),
      expect.objectContaining({ id: idOf(1), outcome: 'sent' }),
    ]);
    const ids = await inPages('--before', 'device', 'pushes', 'device1');
    expect(ids).toEqual([3, 2, 1].map(idOf));
    const [waiting] = await database.runJson<object[]>(
      'device',
      'pushes',
      'device2',
      '--limit',
      '1',
    );
    expect(waiting).toMatchObject({ id: idOf(4) });
    const next = ['--before', idOf(4), '--limit', '1'];
    const [second] = await database.runJson<object[]>('device', 'pushes', 'device2', ...next);
    expect(second).toMatchObject({ id: idOf(3), channel: 'web-push', outcome: 'pending' });
  });

  test('are listed to the end behind many batches for others', async () => {
    const tokens = Array.from({ length: 150 }, (_, n) => `device1n${n}`);
    const others = Array.from({ length: 1_100 }, () => {
      const newer = { _id: newPushId(now.getTime()), app: APP };
      return createBatchDocument(newer, 'mqtt', ['a', ...tokens, 'z'], 0, 'waiting', now);
    });
    await insertDocuments(database.db, 'batches', ...others);
    const ids = await inPages('--before', 'device', 'pushes', 'device1');
    expect(ids).toEqual([3, 2, 1].map(idOf));
    const { out } = await database.run('device', 'pushes', 'device1', '--limit', '1');
    expect(out).toContain(`Next page: --before ${idOf(3)}`);
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
