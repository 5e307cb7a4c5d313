import { afterAll, beforeAll, expect, test } from '@jest/globals';
import {
  ACCOUNT,
  APP,
  anHourAgo,
  batch,
  CLAIM_FIELDS,
  embeddedBatch,
  insertDocuments,
  push,
} from '../../packages/store/test/document-fixtures.ts';
import { runCarillon } from '../../services/cli/test/run-carillon.ts';
import { openStore } from '../support/open-store.ts';
import { startTestDatabase, type TestDatabase } from '../support/test-database.ts';

const SHOP = 'd'.repeat(24);

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

test('due batches that no worker claims, the app with most, and those of no suspended account', async () => {
  const { db } = database;
  await insertDocuments(db, 'pushes', push({ work: embeddedBatch(CLAIM_FIELDS) }));
  expect(await find('backlog')).toMatchObject({ ok: true, detail: 'no batch is due' });
  await insertDocuments(
    db,
    'batches',
    batch(),
    batch({ _id: 'f'.repeat(31), work: embeddedBatch({ at: new Date() }) }),
  );
  const app = { _id: APP, account: ACCOUNT, name: 'news', createdAt: anHourAgo() };
  await insertDocuments(db, 'apps', app);
  const late = expect.stringMatching(
    new RegExp(
      `^2 batches due, the oldest for 36\\d\\d s; the largest: app ${APP} \\(news\\) with 2 pending`,
    ),
  );
  expect(await find('backlog')).toMatchObject({ ok: false, detail: late });
  expect(await database.runJson('app', 'pause', APP)).toMatchObject({ paused: true });
  const held = `no batch is due; the largest: app ${APP} (news, paused) with 2 pending`;
  expect(await find('backlog')).toMatchObject({ ok: true, detail: held });
  expect(await database.runJson('app', 'resume', APP)).toMatchObject({ paused: false });
  expect(await find('backlog')).toMatchObject({ ok: false, detail: late });
  await insertDocuments(db, 'accounts', { _id: ACCOUNT, suspendedAt: anHourAgo() });
  expect(await find('backlog')).toMatchObject({ ok: true, detail: 'no batch is due' });
});

test('credentials that a provider has refused and not accepted since, and since when, while they are tried', async () => {
  const none = { ok: true, detail: 'none in the last hour' };
  expect(await find('refused credentials')).toMatchObject(none);
  const { db } = database;
  const at = anHourAgo();
  await insertDocuments(db, 'apps', { _id: SHOP, account: 'retail', name: 'Shop' });
  await insertDocuments(db, 'credentials', {
    ...{ _id: `${SHOP}:fcm`, app: SHOP, channel: 'fcm', revision: 'r1' },
    refused: { detail: 'InvalidToken', at, until: at },
  });
  const named = expect.stringContaining(
    `FCM refuses the credential of the app Shop: InvalidToken. Since ${at.toISOString()}.`,
  );
  // No push has waited for it since.
  expect(await find('refused credentials')).toMatchObject(none);
  const store = await openStore({ uri: database.uri, appName: 'test' });
  await store.credentials.recordRefusal(`${SHOP}:fcm`, 'r1', 'InvalidToken', 60_000);
  await store.close();
  expect(await find('refused credentials')).toMatchObject({ ok: false, detail: named });
});

test('apps without a contact that Apple accepts, once they have browsers of Apple', async () => {
  const key = (app: string, contact: string) => ({
    ...{ _id: `${app}:web-push`, app, channel: 'web-push' as const, about: { contact } },
  });
  const [OTHER, THIRD] = ['1'.repeat(24), '2'.repeat(24)];
  const { db } = database;
  expect(await find('web push contact')).toMatchObject({ ok: true, detail: 'every app has one' });
  await insertDocuments(db, 'credentials', key(APP, 'mailto:push@carillon.invalid'));
  await insertDocuments(db, 'credentials', key(OTHER, 'mailto:you@localhost'));
  await insertDocuments(db, 'credentials', key(THIRD, 'mailto:you@mail.net'));
  const browserOf = (app: string, host: string) => ({
    ...{
      _id: `${app}${host}`,
      app,
      platform: 'web' as const,
      provider: { address: `https://${host}/a` },
    },
  });
  await insertDocuments(db, 'devices', browserOf(APP, 'fcm.googleapis.com'));
  await insertDocuments(db, 'devices', browserOf(THIRD, 'web.push.apple.com'));
  const hint = 'set WEB_PUSH_CONTACT, or the contact of the app: carillon credential web-push';
  expect(await find('web push contact')).toMatchObject({
    ok: true,
    detail: expect.stringContaining(
      `2 apps have none, so Apple would refuse pushes to Safari: ${hint}`,
    ),
  });
  await insertDocuments(db, 'devices', browserOf(APP, 'web.push.apple.com'));
  expect(await find('web push contact')).toMatchObject({
    ok: false,
    detail: expect.stringContaining(`Apple refuses the pushes to Safari of ${APP}: ${hint}`),
  });
  const env = { MONGODB_URI: database.uri, WEB_PUSH_CONTACT: 'mailto:you@mail.net' };
  const { out } = await runCarillon(['--json', 'doctor'], { env });
  expect(JSON.parse(out)).toContainEqual({
    check: 'web push contact',
    ok: true,
    detail: 'mailto:you@mail.net for apps without one of their own',
  });
});

test('apps whose phones get nothing over FCM: without a credential, or because FCM is off', async () => {
  const [unused, lacking, iphones, mqtt] = ['3', '4', '5', '6'].map((digit) => digit.repeat(24));
  const { db } = database;
  const healthy = { ok: true, detail: 'each app that needs it has it' };
  for (const _id of [unused, lacking, iphones, mqtt])
    await insertDocuments(db, 'apps', { _id, account: ACCOUNT, name: 'x', createdAt: new Date() });
  for (const app of [unused, iphones, mqtt]) {
    const key = { _id: `${app}:fcm`, app, channel: 'fcm' as const, about: {} };
    await insertDocuments(db, 'credentials', key);
  }
  await insertDocuments(db, 'devices', { _id: 'i', app: iphones, platform: 'ios', way: 'fcm' });
  await insertDocuments(db, 'devices', { _id: 'm', app: mqtt, platform: 'android', way: 'mqtt' });
  expect(await find('fcm for android')).toMatchObject(healthy);
  await insertDocuments(db, 'devices', { _id: 'a', app: unused, platform: 'android', way: 'fcm' });
  expect(await find('fcm for android')).toMatchObject({
    ok: true,
    detail: `off for ${unused}, so Android phones that have never connected over MQTT get no push until they do: carillon app set ID --fcm-fallback 30`,
  });
  const args = ['app', 'set', lacking ?? '', '--fcm-fallback'];
  const hint = 'nothing is sent over FCM: carillon credential fcm --app ID';
  expect(await database.runJson(...args, 'first')).toMatchObject({
    fcmFallback: 'first',
    warning: `FCM is on for Android without a credential, so ${hint}`,
  });
  expect(await find('fcm for android')).toMatchObject({
    ok: false,
    detail: expect.stringMatching(
      new RegExp(`^on for ${lacking} without a credential, so ${hint}; off`),
    ),
  });
  expect(await database.runJson(...args, 'off')).not.toHaveProperty('warning');
});

test('proxies that the settings do not name, as long as services notice them', async () => {
  const warnings = database.db.collection<{ _id: string; at: Date }>('proxy_warnings');
  await warnings.insertOne({ _id: 'gateway-proxy-header', at: anHourAgo() });
  expect(await find('client addresses')).toMatchObject({ ok: true });
  await warnings.insertOne({ _id: 'api-forwarded-header', at: new Date() });
  const text = expect.stringMatching(/^requests reach the API .* set TRUST_PROXY .* \(last at 20/);
  expect(await find('client addresses')).toMatchObject({ ok: false, detail: text });
});

test('migrate prints one JSON value, and changes nothing the second time', async () => {
  const result = await database.runJson('migrate');
  const servers = 'one server, which nothing replaces when it fails';
  expect(result).toEqual({ migrated: true, servers, version: 2, steps: [], indexes: [] });
});

test('migrate --check exits with 0 while the schema is up to date, also with --json', async () => {
  expect(await database.run('migrate', '--check')).toEqual({
    code: 0,
    out: 'The schema is up to date: version 2.\n',
    err: '',
  });
  expect(await database.runJson('migrate', '--check')).toMatchObject({ current: true, steps: [] });
});

test('migrate --check exits with 1 while a step or an index is missing, and changes nothing', async () => {
  await database.db.collection('schema').drop();
  await database.db.collection('keys').dropIndex('digest_1');
  for (const _ of ['first', 'second']) {
    const { code, out, err } = await database.run('--json', 'migrate', '--check');
    expect({ code, ...JSON.parse(out) }).toEqual({
      ...{ code: 1, current: false, version: 0, latest: 2 },
      ...{ steps: [1, 2], indexes: ['keys(digest)'] },
    });
    expect(err).toMatch(/^The schema has version 0 of 2, 2 steps to run\. .*carillon migrate\.\n$/);
  }
});

test('doctor names the schema that is behind', async () => {
  const { code, out } = await database.run('doctor');
  expect(code).toBe(1);
  expect(out).toMatch(/^FAIL {2}mongodb schema +version 0, and this release has 2; run carillon/m);
  await database.run('migrate');
  expect((await database.run('doctor')).out).toMatch(/^ok {4}mongodb schema +version 2$/m);
});
