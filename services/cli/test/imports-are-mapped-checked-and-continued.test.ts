import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { stripVTControlCharacters } from 'node:util';
import { formatCsvRecord } from '@carillon/core/csv';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { createTemporaryFolder } from '../../../test/support/temporary-folder.ts';
import { startTestDatabase, type TestDatabase } from '../../../test/support/test-database.ts';
import { runCarillon } from './run-carillon.ts';

const APP = 'a'.repeat(24);
const OTHER_APP = 'b'.repeat(24);
const APP_WITH_FCM = 'c'.repeat(24);
const APNS = 'ab'.repeat(32);
const NOW = new Date();
/** Levels of objects in a line of almost 1 MB. */
const DEEP = 170_000;
/** Address of an iOS device through FCM. */
const BY_FCM = { channel: 'fcm', isApple: true };

type StoredDevice = Record<'_id' | 'app' | 'platform', string> & {
  provider?: object;
  registeredAt: Date;
  lastActiveAt: Date;
  notify?: object[];
};
type Result = Record<'imported' | 'existing' | 'refused', number>;

let database: TestDatabase;
beforeAll(async () => {
  database = await startTestDatabase();
  const apps = [APP, OTHER_APP].map((_id) => ({ _id, account: 'x', name: 'x', createdAt: NOW }));
  const withFcm = { _id: APP_WITH_FCM, account: 'x', name: 'x', createdAt: NOW, fcm: 0 };
  await database.db.collection<{ _id: string }>('apps').insertMany([...apps, withFcm]);
});
afterAll(() => database?.stop());
beforeEach(async () => {
  for (const name of ['devices', 'subscriptions', 'topics'])
    await database.db.collection(name).deleteMany({});
});

const devices = () => database.db.collection<StoredDevice>('devices');
const csv = (...records: (string | number)[][]) => records.map(formatCsvRecord).join('');
const ndjson = (...lines: unknown[]) => lines.map((line) => `${JSON.stringify(line)}\n`).join('');

async function writeFileOf(name: string, text: string): Promise<string> {
  const path = join(createTemporaryFolder(), name);
  await writeFile(path, text);
  return path;
}

async function importFile(path: string, source: string, ...args: string[]): Promise<Result> {
  const { code, out, err } = await database.run(
    ...['--json', 'import', path, '--app', APP, '--source', source, ...args],
  );
  if (code !== 0) throw new Error(err);
  return JSON.parse(out) as Result;
}

async function readReport(path: string): Promise<{ line: number; reason: string }[]> {
  const lines = (await readFile(`${path}.refused.ndjson`, 'utf8')).trimEnd().split('\n');
  return lines.map((line) => JSON.parse(line));
}

describe('a file', () => {
  test('of OneSignal keeps its ids as tokens and leaves out devices without a channel', async () => {
    const id = (n: number) => `0000000${n}-0000-4000-8000-000000000000`;
    const head =
      'id identifier session_count language timezone game_version device_os device_type device_model ad_id ' +
      'tags last_active playtime amount_spent created_at invalid_identifier badge_count external_user_id';
    const created = '2025-03-01 10:00:00 UTC';
    /** All default columns in OneSignal's order, and one of `extra_fields`. */
    const line = (n: number, identifier: string, type: number, at = created, invalid = 'f') => [
      ...[id(n), identifier, 3, 'en', -28_800, '1.0', '17.4', type, 'iPhone15,2', ''],
      ...['{"a":"b,\n""c"""}', at, 60, 0, at, invalid, 0, 'user'],
    ];
    const path = await writeFileOf(
      'onesignal.csv',
      csv(
        head.split(' '),
        line(1, APNS.toUpperCase(), 0),
        line(2, 'fcm:APA91-x', 1),
        line(3, 'https://push.example/x', 5),
        line(4, 'fcm:y', 1, created, 't'),
        line(5, 'a@example.org', 11),
        line(6, 'fcm:z', 1, 'yesterday'),
        line(2, 'fcm:APA91-x', 1),
      ),
    );
    expect(await importFile(path, 'onesignal', '--bundle', 'org.example')).toMatchObject({
      ...{ imported: 2, existing: 1, refused: 4 },
    });
    const since = new Date('2025-03-01T10:00:00Z');
    const times = { registeredAt: since, lastActiveAt: since, importedAt: expect.any(Date) };
    const common = { app: APP, ...times };
    const bundle = { environment: 'production', bundle: 'org.example' };
    expect(await devices().find().sort({ _id: 1 }).toArray()).toEqual([
      {
        ...{ _id: id(1), ...common, platform: 'ios' },
        provider: { channel: 'apns', address: APNS, ...bundle, since },
      },
      {
        ...{ _id: id(2), ...common, platform: 'android', way: 'fcm' },
        provider: { channel: 'fcm', address: 'fcm:APA91-x', since },
        way: 'fcm',
      },
    ]);
    // Each continues in the next line; the number is that of its first line.
    const refused = await readReport(path);
    expect(refused.map(({ line }) => line)).toEqual([6, 8, 10, 12]);
    expect(refused.map(({ reason }) => reason)).toEqual([
      expect.stringContaining('bound to the keys'),
      'unsubscribed',
      'device_type "11" has no channel here',
      'created_at is no date: "yesterday"',
    ]);
  });

  test('of responses of Pushy keeps tokens, credentials and topics', async () => {
    const device = {
      ...{ token: 'a6345d0278adc55d3474f5', auth: 'secret' },
      device: { date: 1_700_000_000, platform: 'android' },
      presence: { online: false, last_active: { date: 1_700_000_100, seconds_ago: 5 } },
      ...{ pending_notifications: [], subscriptions: ['news', 'sport'] },
    };
    const flat = { token: 'b', platform: 'electron', date: 1_700_000_000, topics: 'news' };
    const gone = { token: 'd', device: { platform: 'android' }, presence: { uninstalled: true } };
    const ios = { token: 'e', platform: 'ios', fcm_token: 'f:e' };
    const both = { token: 'f', platform: 'ios', fcm_token: 'f:f', apns_token: APNS };
    const lines = [device, flat, { token: 'c' }, gone, ios, both];
    const path = await writeFileOf('pushy.ndjson', ndjson(...lines));
    const result = await importFile(path, 'pushy', '--bundle', 'org.example');
    expect(result).toMatchObject({ imported: 5, refused: 1 });
    const providerOf = async (_id: string) => (await devices().findOne({ _id }))?.provider;
    expect(await providerOf('e')).toMatchObject({ ...BY_FCM, address: 'f:e' });
    expect(await providerOf('f')).toMatchObject({ channel: 'apns', address: APNS });
    expect(await devices().findOne({ _id: 'd' })).toMatchObject({ uninstalled: true });
    const authDigest = createHash('sha256').update('secret').digest('hex');
    expect(await devices().findOne({ _id: device.token })).toEqual({
      ...{ _id: device.token, app: APP, platform: 'android', authDigest },
      registeredAt: new Date(1_700_000_000_000),
      lastActiveAt: new Date(1_700_000_100_000),
      importedAt: expect.any(Date),
    });
    const topics = await database.db.collection('topics').find().sort({ _id: 1 }).toArray();
    expect(topics).toEqual([
      expect.objectContaining({ _id: `${APP}:news`, n: { android: 1, electron: 1 } }),
      expect.objectContaining({ _id: `${APP}:sport`, n: { android: 1 } }),
    ]);
    expect(await database.db.collection('subscriptions').countDocuments({ pending: 1 })).toBe(0);
  });

  test.each([
    ['fcm', 'list.csv', 'one\r\ntwo\r\none\r\n', []],
    ['fcm', 'head.csv', 'Token,note\none,x\ntwo,"y, z"\none,x', []],
    ['fcm', 'lines.ndjson', '"one"\n{"token":"two"}\n"one"\n', []],
    ['apns', 'list.csv', `${APNS}\n<${APNS.slice(8)} 00000000>\n${APNS}\n`, ['--bundle', 'a.b']],
  ])('of plain tokens of %s (%s) creates a device for each', async (source, name, text, args) => {
    const path = await writeFileOf(name, text);
    expect(await importFile(path, source, ...args)).toEqual({
      ...{ imported: 2, existing: 1, refused: 0 },
    });
    expect(existsSync(`${path}.refused.ndjson`)).toBe(false);
    const found = await devices().find().toArray();
    expect(found.map(({ _id }) => /^[0-9a-f]{22}$/.test(_id))).toEqual([true, true]);
    expect(await importFile(path, source, ...args)).toMatchObject({ imported: 0, existing: 3 });
  });

  test.each(['csv', 'ndjson'])('of FCM tokens has a platform for each, as %s', async (format) => {
    const fields = [
      { token: 'one', platform: 'ios' },
      { token: 'two', platform: 'Android' },
      { token: 'three', platform: '' },
      { token: 'four', platform: 'web' },
      { token: 'five', platform: 'amiga' },
    ];
    const rows = fields.map(({ token, platform }) => [token, platform]);
    const text = format === 'csv' ? csv(['token', 'platform'], ...rows) : ndjson(...fields);
    const path = await writeFileOf(`platforms.${format}`, text);
    expect(await importFile(path, 'fcm')).toMatchObject({ imported: 3, refused: 2 });
    const found = await devices().find().sort({ 'provider.address': 1 }).toArray();
    expect(found.map(({ platform, provider }) => ({ platform, ...provider }))).toMatchObject([
      { ...BY_FCM, platform: 'ios', address: 'one' },
      { platform: 'android', channel: 'fcm', address: 'three' },
      { platform: 'android', channel: 'fcm', address: 'two' },
    ]);
    expect(found.map((device) => device.provider && 'isApple' in device.provider)).toEqual([
      ...[true, false, false],
    ]);
    expect((await readReport(path)).map(({ reason }) => reason)).toEqual([
      'a device of the platform web is not reached over FCM',
      'unknown platform "amiga"',
    ]);
  });

  test.each([
    ['Android tokens', APP, 'token,platform\none,ios\ntwo,\n', 1],
    ['iOS tokens alone', APP, 'token,platform\none,ios\n', 0],
    ['Android tokens for an app that uses FCM', APP_WITH_FCM, 'two\n', 0],
  ])('with %s says once how FCM is turned on, if it is off', async (_, app, text, hints) => {
    const path = await writeFileOf('hint.csv', text);
    for (const check of [['--check'], []]) {
      const args = ['import', path, '--app', app, '--source', 'fcm', ...check];
      const { code, err } = await database.run(...args);
      expect(code).toBe(0);
      expect(err.split(`carillon app set ${app} --fcm-fallback 0`)).toHaveLength(1 + hints);
    }
  });

  test('refuses each invalid line, with the reason, and imports the others', async () => {
    await devices().insertMany(
      [
        { _id: 'foreign', app: OTHER_APP },
        { _id: 'deleted', app: APP, deletedAt: NOW },
        { _id: 'holder', app: APP, provider: { channel: 'fcm', address: 'taken' } },
      ].map((one) => ({ ...one, platform: 'android', registeredAt: NOW, lastActiveAt: NOW })),
    );
    const line = (token: unknown, fields?: object) => ({ token, platform: 'android', ...fields });
    const path = await writeFileOf(
      'wrong.ndjson',
      [
        ndjson(line('good')),
        'not json\n[]\n',
        `{"token":"deep","platform":"ios","x":${'{"a":'.repeat(DEEP)}1${'}'.repeat(DEEP + 1)}\n`,
        ndjson(
          line('a:b'),
          line(undefined),
          line('x', { platform: 'amiga' }),
          line('foreign'),
          line('deleted'),
          line('thief', { channel: 'fcm', address: 'taken' }),
          line('y', { channel: 'apns', address: 'xyz', environment: 'production' }),
          line('z', { date: -1 }),
          line('w', { channel: 'web-push', address: 'http://10.0.0.1/' }),
          { complete: true },
        ),
      ].join(''),
    );
    expect(await importFile(path, 'carillon')).toMatchObject({ imported: 2, refused: 11 });
    expect((await readReport(path)).map(({ reason }) => reason)).toEqual([
      'no JSON',
      'no JSON object',
      expect.stringContaining('letters, digits'),
      'no token',
      'unknown platform "amiga"',
      'the token belongs to a device of another app',
      expect.stringContaining('must register anew'),
      'another device of the app has this provider address',
      'the APNs token is not hexadecimal',
      'date is no date: "-1"',
      'the address of the browser is no https URL',
    ]);
    expect(await devices().findOne({ _id: 'foreign' })).toMatchObject({ app: OTHER_APP });
  });
});

test('an import that was stopped continues where it ended, also when its last write is repeated', async () => {
  const count = 2_500;
  const platformOf = (n: number) => (n % 500 === 7 ? 'x' : 'ios');
  const lines = Array.from({ length: count }, (_, n) => [`device${n}`, platformOf(n)]);
  const path = await writeFileOf('many.csv', csv(['token', 'platform'], ...lines));
  const run = (signal?: AbortSignal, ...check: string[]) =>
    runCarillon(['--json', 'import', path, '--app', APP, '--source', 'carillon', ...check], {
      env: { MONGODB_URI: database.uri },
      ...(signal && { signal }),
    });
  for (const check of [['--check'], []]) {
    const stopped = await run(AbortSignal.abort(), ...check);
    expect([stopped.code, stopped.err]).toEqual([1, expect.stringContaining('after line 1001')]);
  }
  expect(await devices().countDocuments()).toBe(998);
  const checked = await run(undefined, '--check');
  expect(JSON.parse(checked.out)).toMatchObject({ imported: 1_497, existing: 998, refused: 5 });
  // As if it had been killed between the write and its record: the report has too many lines.
  await devices().insertOne({
    ...{ _id: 'device1000', app: APP, platform: 'ios', registeredAt: NOW, lastActiveAt: NOW },
  });
  await writeFile(`${path}.refused.ndjson`, '{"line":1009}\n', { flag: 'a' });
  const { out, err } = await run();
  expect(err).toContain('Continuing after line 1001');
  expect(JSON.parse(out)).toMatchObject({ imported: count - 6, existing: 1, refused: 5 });
  expect(await devices().countDocuments()).toBe(count - 5);
  expect((await readReport(path)).map(({ line }) => line)).toEqual([9, 509, 1009, 1509, 2009]);
  expect(existsSync(`${path}.import.json`)).toBe(false);
});

test('an import with other options than the one that was stopped begins anew', async () => {
  const lines = Array.from({ length: 1_500 }, (_, n) => [`device${n}`, 'ios']);
  const path = await writeFileOf('corrected.csv', csv(['token', 'platform'], ...lines));
  const run = (bundle: string, signal?: AbortSignal) =>
    runCarillon(
      ['--json', 'import', path, '--app', APP, '--source', 'carillon', '--bundle', bundle],
      { env: { MONGODB_URI: database.uri }, ...(signal && { signal }) },
    );
  expect((await run('com.exmaple.app', AbortSignal.abort())).err).toContain('after line 1001');
  const { out, err } = await run('com.example.app');
  expect(err).not.toContain('Continuing');
  expect(JSON.parse(out)).toMatchObject({ imported: 500, existing: 1_000, refused: 0 });
});

test.each([
  [true, [], /^=+ 100 % \| [\d.]+ of [\d.]+ MB \| [\d.]+\/s \| \d+s left$/],
  [true, ['--json'], /^$/],
  [false, [], /^$/],
])('progress is drawn on a terminal (%s) without --json %j', async (isTTY, json, last) => {
  const lines = Array.from({ length: 10_000 }, (_, n) => [`device${n}`, 'ios']);
  const path = await writeFileOf('shown.csv', csv(['token', 'platform'], ...lines));
  const terminal = Object.assign(new PassThrough(), { isTTY });
  const args = ['import', path, '--app', APP, '--source', 'carillon', ...json];
  const { code, err } = await runCarillon(args, { env: { MONGODB_URI: database.uri }, terminal });
  expect([code, err]).toEqual([0, '']);
  // The bar is erased at the end; each draw begins with a move of the cursor.
  const draws = `${terminal.read() ?? ''}`.split('\u001B[1G').map(stripVTControlCharacters);
  expect(draws.findLast((text) => text !== '') ?? '').toMatch(last);
});

test('each imported device is reported to webhooks once, and only on request', async () => {
  const events = ['device.registered'];
  const webhooks = database.db.collection<{ _id: string; app: string }>('webhooks');
  const documents = [
    { _id: 'hook', app: APP, slot: 0, events },
    { _id: 'of-pushes', app: APP, slot: 1, events: ['push.finished'] },
    { _id: 'off', app: APP, slot: 2, events, off: { at: NOW, reason: 'operator' } },
    { _id: 'foreign', app: OTHER_APP, slot: 0, events },
  ];
  await webhooks.insertMany(documents);
  const lines = (...tokens: string[]) =>
    ndjson(...tokens.map((token) => ({ token, platform: 'electron' })));
  await importFile(await writeFileOf('quiet.ndjson', lines('one')), 'carillon');
  expect(await devices().findOne({ _id: 'one' })).not.toHaveProperty('notify');
  const path = await writeFileOf('told.ndjson', lines('one', 'two', 'three'));
  const result = await importFile(path, 'carillon', '--webhooks');
  expect(result).toEqual({ imported: 2, existing: 1, refused: 0 });
  const entry = { w: 'hook', v: 1, at: expect.any(Date), events: ['registered'] };
  const notified = async () => {
    const found = await devices().find().sort({ _id: 1 }).toArray();
    return found.map(({ _id, notify }) => [_id, notify]);
  };
  const reported = [
    ['one', undefined],
    ['three', [entry]],
    ['two', [entry]],
  ];
  expect(await notified()).toEqual(reported);
  // As after the report: a repeated import creates no second event.
  await devices().updateMany({}, { $unset: { notify: true } });
  await importFile(path, 'carillon', '--webhooks');
  expect(await notified()).toEqual(reported.map(([token]) => [token, undefined]));
  await webhooks.deleteMany({});
});

test('a quote that is never closed ends the import with the line', async () => {
  const path = await writeFileOf('open.csv', `token,platform\na,ios\n"${'x,'.repeat(600_000)}`);
  await expect(importFile(path, 'carillon')).rejects.toThrow('line 3');
});

test('a report that can not be written is no fault of MongoDB', async () => {
  const path = await writeFileOf('refused.csv', 'token\n\u00e4\n');
  await mkdir(`${path}.refused.ndjson`);
  const { code, err } = await database.run('import', path, '--app', APP, '--source', 'fcm');
  expect([code, err]).toEqual([1, expect.stringMatching(/^The command failed: EISDIR.*refused/)]);
});

test.each([
  [['/nonexistent.csv'], "can't be read"],
  [[import.meta.dirname, '--format', 'csv'], "can't be read: EISDIR"],
  [[import.meta.filename], 'give --format'],
])('an import of %j is refused', async (args, message) => {
  const { code, err } = await database.run('import', ...args, '--app', APP, '--source', 'fcm');
  expect([code, err]).toEqual([1, expect.stringContaining(message)]);
});
