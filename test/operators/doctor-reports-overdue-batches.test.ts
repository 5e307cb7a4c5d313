import { afterAll, beforeAll, expect, test } from '@jest/globals';
import {
  ACCOUNT,
  APP,
  anHourAgo,
  batch,
  CLAIM_FIELDS,
  embeddedBatch,
  inAnHour,
  insertDocuments,
  push,
} from '../../packages/store/test/document-fixtures.ts';
import { startTestDatabase, type TestDatabase } from '../support/test-database.ts';

interface Finding {
  check: string;
  ok: boolean;
  detail: string;
}

let database: TestDatabase;
beforeAll(async () => {
  database = await startTestDatabase();
});
afterAll(() => database?.stop());

async function find(check: string): Promise<Finding | undefined> {
  const findings = await database.runJson<Finding[]>('doctor');
  return findings.find((one) => one.check === check);
}

test('the disk that MongoDB writes to', async () => {
  const detail = expect.stringMatching(/ GiB free/);
  expect(await find('mongodb disk space')).toMatchObject({ detail });
});

test('due batches that no worker claims, except those of suspended accounts', async () => {
  const { db } = database;
  await insertDocuments(db, 'pushes', push({ work: embeddedBatch(CLAIM_FIELDS) }));
  expect(await find('backlog')).toMatchObject({ ok: true, detail: 'no batch is due' });
  await insertDocuments(
    db,
    'batches',
    batch(),
    batch({ _id: 'f'.repeat(31), work: embeddedBatch({ at: new Date() }) }),
  );
  const late = expect.stringMatching(/^2 batches due, the oldest for 36\d\d s/);
  expect(await find('backlog')).toMatchObject({ ok: false, detail: late });
  await insertDocuments(db, 'apps', { _id: APP, account: ACCOUNT });
  await insertDocuments(db, 'accounts', { _id: ACCOUNT, suspendedAt: anHourAgo() });
  expect(await find('backlog')).toMatchObject({ ok: true });
});

test('credentials that a provider refuses, as long as it does', async () => {
  const refused = (until: Date) => ({
    refused: { detail: 'InvalidToken', at: anHourAgo(), until },
  });
  await insertDocuments(database.db, 'credentials', {
    _id: `${APP}:apns`,
    app: APP,
    ...refused(anHourAgo()),
  });
  expect(await find('refused credentials')).toMatchObject({ ok: true, detail: 'none' });
  await insertDocuments(database.db, 'credentials', {
    _id: `${APP}:fcm`,
    app: APP,
    ...refused(inAnHour()),
  });
  const named = expect.stringMatching(new RegExp(`^${APP}:fcm \\(InvalidToken; until `));
  expect(await find('refused credentials')).toMatchObject({ ok: false, detail: named });
});

test('proxies that the settings do not name, as long as services notice them', async () => {
  const warnings = database.db.collection<{ _id: string; at: Date }>('proxy_warnings');
  await warnings.insertOne({ _id: 'gateway-proxy-header', at: anHourAgo() });
  expect(await find('client addresses')).toMatchObject({ ok: true });
  await warnings.insertOne({ _id: 'api-forwarded-header', at: new Date() });
  const text = expect.stringMatching(/^requests reach the API .* set TRUST_PROXY .* \(last at 20/);
  expect(await find('client addresses')).toMatchObject({ ok: false, detail: text });
});
