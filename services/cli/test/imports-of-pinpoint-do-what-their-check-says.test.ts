import { existsSync } from 'node:fs';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { startProcess } from '../../../test/support/child-process.ts';
import { createTemporaryFolder } from '../../../test/support/temporary-folder.ts';
import { startTestDatabase, type TestDatabase } from '../../../test/support/test-database.ts';
import { until } from '../../../test/support/until.ts';

const APP = 'a'.repeat(24);
const OTHER_APP = 'b'.repeat(24);
const MAIN = fileURLToPath(new URL('../src/main.ts', import.meta.url));
const NOW = new Date();
const LINES = 50_000;
/** Lines that are written together. */
const BATCH = 1_000;

interface Result extends Record<'imported' | 'existing' | 'refused', number> {
  reasons: { reason: string; lines: number; line: number }[];
}

let database: TestDatabase;
beforeAll(async () => {
  database = await startTestDatabase();
  const apps = [APP, OTHER_APP].map((_id) => ({ _id, account: 'x', name: 'x', createdAt: NOW }));
  await database.db.collection<{ _id: string }>('apps').insertMany(apps);
});
afterAll(() => database?.stop());
beforeEach(() => devices().deleteMany({}));

const devices = () => database.db.collection<{ _id: string; app: string }>('devices');
const idOf = (n: number) => `0000000${n % 10}-0000-4000-8000-${String(n).padStart(12, '0')}`;
const apnsOf = (n: number) => n.toString(16).padStart(64, '0');

/** Builds a line as Pinpoint exports it. */
function endpoint(n: number, fields: object = {}) {
  return {
    ...{ ChannelType: 'GCM', Address: `fcm:${n}`, EndpointStatus: 'ACTIVE', OptOut: 'NONE' },
    Location: { City: 'Toyama', Country: 'JPN' },
    Demographic: { Make: 'Google', Platform: 'android', AppVersion: '1.0' },
    EffectiveDate: '2026-02-07T14:29:40.220Z',
    Attributes: { Address: ['x'], Platform: ['ios'] },
    User: { UserId: `user-${n}`, UserAttributes: { Id: ['y'] } },
    ...{ ApplicationId: '9b74f4a3e06944008aa882015447c15f', Id: idOf(n), CohortId: '48' },
    CreationDate: '2025-02-07T14:29:40.220Z',
    ...fields,
  };
}

/** Kinds of lines: one in a hundred each, with the reason why it is refused, or its result. */
const KINDS: Record<number, [outcome: string, line: (n: number) => object | string]> = {
  3: ['no JSON', () => '{"ChannelType":"GCM","Addr'],
  7: [channel('EMAIL'), (n) => endpoint(n, { ChannelType: 'EMAIL', Address: 'a@example.org' })],
  13: [channel('SMS'), (n) => endpoint(n, { ChannelType: 'SMS', Address: '+12065550182' })],
  17: [channel('BAIDU'), (n) => endpoint(n, { ChannelType: 'BAIDU' })],
  19: ['opted out', (n) => endpoint(n, { OptOut: 'ALL' })],
  // Properties that every object of JavaScript has.
  21: [channel('constructor'), (n) => endpoint(n, { ChannelType: 'constructor' })],
  22: [channel('__proto__'), (n) => endpoint(n, { ChannelType: '__proto__' })],
  23: ['inactive', (n) => endpoint(n, { EndpointStatus: 'INACTIVE' })],
  31: [
    'another device of the app has this provider address',
    (n) => endpoint(n, { Address: `fcm:${n - 1}` }),
  ],
  37: ['existing', (n) => endpoint(n, { Id: idOf(n - 1) })],
  41: ['imported', (n) => endpoint(n, { Id: `0f9d1/ssx+${n}` })],
  // Without an id that can be a token, the address decides; the line before is another batch's.
  42: [
    'existing',
    (n) => endpoint(n, { Id: `x/${n}`, Address: `fcm:${n < BATCH ? 0 : n - BATCH + 2}` }),
  ],
  43: [
    'the FCM token is not 1 to 4,096 printable characters',
    (n) => endpoint(n, { Address: 'a token' }),
  ],
  47: [
    'the APNs token is not hexadecimal',
    (n) => endpoint(n, { ChannelType: 'APNS', Address: '1a2b3c4d5e6f7g8h9i0j' }),
  ],
  53: ['CreationDate is no date', (n) => endpoint(n, { CreationDate: `day ${n}` })],
  59: [
    'imported',
    (n) => endpoint(n, { Unknown: { Deep: { er: { est: [1] } } }, RequestId: null }),
  ],
  61: ['imported', (n) => endpoint(n, { Demographic: { Platform: 'iOS' } })],
  67: ['imported', (n) => endpoint(n, { ChannelType: 'APNS', Address: apnsOf(n) })],
  71: ['imported', (n) => endpoint(n, { ChannelType: 'APNS_SANDBOX', Address: apnsOf(n) })],
  73: ['imported', (n) => endpoint(n, { ChannelType: 'APNS_VOIP', Address: apnsOf(n) })],
  79: ['imported', (n) => endpoint(n, { ChannelType: 'APNS_VOIP_SANDBOX', Address: apnsOf(n) })],
  83: ['the token belongs to a device of another app', (n) => endpoint(n)],
  89: ['the device with this token was deleted here; it must register anew', (n) => endpoint(n)],
  97: ['another device of the app has this provider address', (n) => endpoint(n)],
};

function channel(type: string): string {
  return `ChannelType "${type}" has no channel here`;
}

/** Writes the file, and the devices that are there before it. @returns the number of lines of each outcome */
async function prepare(path: string): Promise<Record<string, number>> {
  const outcomes: Record<string, number> = { imported: 0, existing: 0 };
  const lines = Array.from({ length: LINES }, (_, n) => {
    const [outcome, build] = KINDS[n % 100] ?? ['imported', endpoint];
    outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
    const line = build(n);
    return typeof line === 'string' ? line : JSON.stringify(line);
  });
  await writeFile(path, `${lines.join('\n')}\n`);
  const times = { platform: 'android', registeredAt: NOW, lastActiveAt: NOW };
  const each = Array.from({ length: LINES / 100 }, (_, n) => n * 100);
  await devices().insertMany(
    each.flatMap((n) => [
      { _id: idOf(n + 83), app: OTHER_APP, ...times },
      { _id: idOf(n + 89), app: APP, deletedAt: NOW, ...times },
      {
        _id: `holder${n}`,
        app: APP,
        provider: { channel: 'fcm', address: `fcm:${n + 97}` },
        ...times,
      },
    ]),
  );
  return outcomes;
}

function argumentsOf(path: string, ...options: string[]): string[] {
  const to = ['--app', APP, '--source', 'pinpoint', '--bundle', 'org.example'];
  return ['--json', 'import', path, ...to, ...options];
}

/** The outcome that the kinds of lines name: a reason without the value of its first line. */
const outcomesOf = ({ imported, existing, reasons }: Result) => ({
  ...{ imported, existing },
  ...Object.fromEntries(reasons.map(({ reason, lines }) => [reason.split(': "')[0], lines])),
});

async function killInTheMiddle(path: string): Promise<void> {
  const env = { PATH: process.env.PATH, MONGODB_URI: database.uri };
  const child = startProcess(process.execPath, [MAIN, ...argumentsOf(path)], { env });
  const state = `${path}.import.json`;
  await until(
    async () =>
      existsSync(state) && JSON.parse(await readFile(state, 'utf8')).position.lines > LINES / 4,
  );
  child.kill('SIGKILL');
  expect(await child.exited).toBe(null);
}

test('fifty thousand lines with faults are imported as their check says, also by an import that was killed', async () => {
  // The name of a file that S3 had compressed.
  const path = join(createTemporaryFolder(), 'part-00000');
  const expected = await prepare(path);
  const before = await devices().countDocuments();
  const checked = await database.runJson<Result>(...argumentsOf(path, '--check'));
  expect(outcomesOf(checked)).toEqual(expected);
  expect(checked.reasons.find(({ reason }) => reason.startsWith('CreationDate'))).toEqual({
    ...{ reason: 'CreationDate is no date: "day 53"', lines: LINES / 100, line: 54 },
  });
  expect(await devices().countDocuments()).toBe(before);
  expect(await readdir(dirname(path))).toEqual(['part-00000']);

  await killInTheMiddle(path);
  const result = await database.runJson<Result>(...argumentsOf(path));
  expect(result).toMatchObject({ refused: checked.refused });
  expect(result.imported + result.existing).toBe(checked.imported + checked.existing);
  // Devices whose write the kill left unrecorded are there already.
  expect(checked.imported - result.imported).toBeLessThanOrEqual(BATCH);
  expect(await devices().countDocuments()).toBe(before + checked.imported);
  const report = (await readFile(`${path}.refused.ndjson`, 'utf8')).trimEnd().split('\n');
  const reasons = report.map((line) => JSON.parse(line).reason.split(': "')[0]);
  for (const reason of Object.keys(expected).slice(2))
    expect([reason, reasons.filter((one) => one === reason)]).toEqual([
      ...[reason, Array(expected[reason]).fill(reason)],
    ]);

  const again = await database.runJson<Result>(...argumentsOf(path, '--check'));
  expect(again).toEqual({
    ...checked,
    ...{ imported: 0, existing: checked.imported + checked.existing },
  });
});

test('an endpoint becomes the device of its channel, and keeps an id that can be a token', async () => {
  const path = join(createTemporaryFolder(), 'endpoints.json');
  const numbers = [0, 41, 61, 67, 71, 73, 79];
  const lines = numbers.map((n) => JSON.stringify((KINDS[n]?.[1] ?? endpoint)(n)));
  await writeFile(path, lines.join('\n'));
  const { out, err } = await database.run(...argumentsOf(path));
  expect(JSON.parse(out)).toMatchObject({ imported: numbers.length });
  expect(err).toContain('FCM is off');
  const found = await devices().find().toArray();
  const since = new Date('2025-02-07T14:29:40.220Z');
  const times = { registeredAt: since, lastActiveAt: new Date('2026-02-07T14:29:40.220Z') };
  const fcm = (n: number) => ({ channel: 'fcm', address: `fcm:${n}`, since });
  const apns = (n: number, environment: string) => ({
    ...{ channel: 'apns', address: apnsOf(n), environment, bundle: 'org.example', since },
  });
  const android = { platform: 'android', way: 'fcm' };
  const expected = [
    { _id: idOf(0), ...android, provider: fcm(0) },
    { _id: expect.stringMatching(/^[0-9a-f]{22}$/), ...android, provider: fcm(41) },
    { _id: idOf(61), platform: 'ios', way: 'fcm', provider: { ...fcm(61), isApple: true } },
    { _id: idOf(67), platform: 'ios', provider: apns(67, 'production') },
    { _id: idOf(71), platform: 'ios', provider: apns(71, 'development') },
    { _id: idOf(73), platform: 'ios', provider: { ...apns(73, 'production'), kind: 'voip' } },
    { _id: idOf(79), platform: 'ios', provider: { ...apns(79, 'development'), kind: 'voip' } },
  ].map((device) => ({ app: APP, importedAt: expect.any(Date), ...times, ...device }));
  expect(found).toHaveLength(expected.length);
  expect(found).toEqual(expect.arrayContaining(expected));
});

test('a check of subscriptions, and of topics, writes none', async () => {
  await devices().insertOne({ ...{ _id: 'there', app: APP }, ...{ platform: 'ios' } });
  const path = join(createTemporaryFolder(), 'subscriptions.csv');
  await writeFile(path, 'topic,token\nnews,there\nnews,absent\n');
  const check = (source: string) => ['--app', APP, '--source', source, '--check'];
  expect(await database.runJson('import', path, ...check('subscriptions'))).toMatchObject({
    imported: 1,
    refused: 1,
  });
  const pushy = join(createTemporaryFolder(), 'pushy.csv');
  await writeFile(pushy, 'token,platform,topics\nnew,electron,news\n');
  const { code, out } = await database.run('import', pushy, ...check('pushy'));
  expect([code, out]).toEqual([
    ...[0, '1 entry would be imported, 0 there already, 0 refused. Nothing was written.\n'],
  ]);
  for (const name of ['subscriptions', 'topics'])
    expect(await database.db.collection(name).countDocuments()).toBe(0);
});

test('a check lists a hundred reasons, and counts the lines of all others together', async () => {
  const path = join(createTemporaryFolder(), 'channels.ndjson');
  const lines = Array.from({ length: 120 }, (_, n) => JSON.stringify({ ChannelType: `C${n}` }));
  await writeFile(path, lines.join('\n'));
  const { code, out } = await database.run(...argumentsOf(path, '--check').slice(1));
  expect(code).toBe(0);
  expect(out.trimEnd().split('\n')).toHaveLength(102);
  expect(out).toContain('20 lines, the first is 101: other reasons\n');
  expect(out).toContain('1 line, the first is 1: ChannelType "C0" has no channel here\n');
});
