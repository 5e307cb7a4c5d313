import { generateKeyPairSync } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  createOperatorToken,
  type NewOperatorToken,
  revokeOperatorToken,
} from '../../packages/admin/src/operator-tokens.ts';
import { makeCertificate, packP12 } from '../../packages/admin/test/certificates.ts';
import { failureCode } from '../../packages/core/src/outcomes.ts';
import { boxKeyOf } from '../../packages/core/src/sealed-box.ts';
import type {
  BatchDocument,
  DeviceDocument,
  PushDocument,
} from '../../packages/store/src/documents.ts';
import { insertDocuments } from '../../packages/store/test/document-fixtures.ts';
import { APP, deliver, insertPush } from '../../packages/store/test/store-under-test.ts';
import { runCarillon } from '../../services/cli/test/run-carillon.ts';
import {
  type ConsoleUnderTest,
  SETTINGS,
  startConsole,
} from '../../services/dashboard/test/console-under-test.ts';
import { createTemporaryFolder } from '../support/temporary-folder.ts';

const UNKNOWN = '0'.repeat(24);
const PASSPHRASE = 'passphrase';
/** Collections that the commands write. */
const WRITTEN = ['accounts', 'apps', 'keys', 'credentials', 'webhooks', 'redrives'];
/** Account of the app with devices and pushes, which no command changes. */
const ACCOUNT = 'b'.repeat(24);

let started: ConsoleUnderTest;
let admin: string;
/** Ids and files that command lines name as `{name}`. */
const shared: Record<string, string> = { seen: APP, unknown: UNKNOWN };

beforeAll(async () => {
  started = await startConsole();
  const { store, db, env } = started;
  admin = await newToken();
  await store.webhooks.putBoxKey(boxKeyOf(env.CREDENTIAL_KEYS));
  const createdAt = new Date();
  await insertDocuments(db, 'accounts', { _id: ACCOUNT, name: 'Seen', plan: 'pro', createdAt });
  await insertDocuments(db, 'apps', { _id: APP, account: ACCOUNT, name: 'Seen', createdAt });
  const hook = { _id: APP, app: APP, secrets: [], events: [], slot: 0, createdAt };
  await insertDocuments(db, 'webhooks', hook);
  const request = { _id: UNKNOWN, webhook: APP, at: createdAt, status: 500, milliseconds: 7 };
  await store.webhookRequests.record(APP, [
    {
      ...{ ...request, bytes: 90, events: ['a', 'b'], attempt: 2, answer: 'not\nnow' },
      types: [{ type: 'push.finished', count: 2 }],
    },
  ]);
  const devices = [];
  for (const platform of ['android', 'web', 'electron'] as const) {
    const { token } = await store.devices.register(APP, platform);
    await store.subscriptions.subscribe(APP, { token, platform }, ['news', 'sport']);
    devices.push(token);
  }
  const phones = db.collection<DeviceDocument>('devices');
  await phones.updateOne({ platform: 'android' }, { $set: { way: 'fcm' } });
  const tables = {
    pushes: db.collection<PushDocument>('pushes'),
    batches: db.collection<BatchDocument>('batches'),
  };
  const push = await insertPush(tables, devices);
  const failed = failureCode('rejected-by-provider');
  await deliver(store, push, { [devices[0] ?? '']: failed }, { finish: true });
  const words: [string, number[]][] = [['BadDeviceToken', [0]]];
  await tables.pushes.updateOne({ _id: push.id }, { $set: { 'work.words': words } });
  const open = await insertPush(tables, devices);
  await tables.pushes.updateOne({ _id: open.id }, { $set: { topics: ['news'] } });
  Object.assign(shared, { push: push.id, open: open.id, device: devices[0], files: writeFiles() });
});
afterAll(() => started.stop());

function writeFiles(): string {
  const folder = createTemporaryFolder();
  const { privateKey: ec } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const { privateKey: rsa } = generateKeyPairSync('rsa', { modulusLength: 2_048 });
  const pem = (key: typeof ec) => key.export({ format: 'pem', type: 'pkcs8' }).toString();
  const account = {
    ...{ type: 'service_account', project_id: 'demo', private_key: pem(rsa) },
    client_email: 'push@demo.iam.gserviceaccount.com',
    token_uri: 'https://oauth2.googleapis.com/token',
  };
  const write = (name: string, content: string | Buffer) =>
    writeFileSync(join(folder, name), content);
  write('AuthKey_ABCDE12345.p8', pem(ec));
  write('account.json', JSON.stringify(account));
  write('push.p12', packP12(makeCertificate(), PASSPHRASE));
  write('passphrase', PASSPHRASE);
  write('pair', Buffer.alloc(32, 7).toString('base64url'));
  return folder;
}

/** Returns the text of a new token; an hour long, for all accounts, of the role `admin`. */
async function newToken(grant: Partial<NewOperatorToken> = {}): Promise<string> {
  return (await newTokenWithId(grant)).token;
}

function newTokenWithId(grant: Partial<NewOperatorToken> = {}) {
  const token = { name: 'test', role: 'admin', accounts: 'all', seconds: 3_600 } as const;
  return createOperatorToken(started.store, { ...token, ...grant });
}

const overDatabase = () => ({
  MONGODB_URI: started.uri,
  API_KEY_PEPPER: SETTINGS.API_KEY_PEPPER,
  CREDENTIAL_KEYS: SETTINGS.CREDENTIAL_KEYS,
});
const overConsole = (token = admin) => ({ CARILLON_CONSOLE: started.url, CARILLON_TOKEN: token });

/** A command line, after the name that its result is known by afterwards. */
const COMMANDS: [name: string, line: string][] = [
  ['account', 'account create Acme --plan pro'],
  ['', 'account limit {account} 600'],
  ['', 'account suspend {account}'],
  ['', 'account resume {account}'],
  ['', 'account limit {account} unlimited'],
  ['app', 'app create Shop --account {account}'],
  ['other', 'app create Other --account {account}'],
  ['', 'app show {app}'],
  ['', 'app set {app} --payload-limit 8192 --data-string on --registration closed'],
  ['', 'app set {app} --registrations-per-hour unlimited --fcm-notification on'],
  ['', 'app set {app} --bundle-id com.example.a,com.example.b --web-host www.example.com'],
  // Warns: there is no credential yet.
  ['', 'app set {app} --fcm-fallback 30'],
  ['', 'app set {app} --fcm-fallback first --no-bundle-id'],
  ['', 'app set {other} --fcm-fallback 5m'],
  ['', 'app set {other} --fcm-fallback off --registrations-per-hour 10 --no-web-host'],
  ['', 'app pause {app}'],
  ['', 'app show {app}'],
  ['', 'app resume {app}'],
  ['key', 'key create --app {app}'],
  ['', 'key list --app {app}'],
  ['', 'key revoke {key} --app {app}'],
  ['', 'key list --app {app}'],
  ['', 'credential apns --app {app} --key {files}/AuthKey_ABCDE12345.p8 --team-id TEAM123456'],
  [
    '',
    'credential apns --app {other} --key {files}/AuthKey_ABCDE12345.p8 --key-id FGHIJ67890 --team-id TEAM123456 --environment development',
  ],
  [
    '',
    'credential apns --app {app} --certificate {files}/push.p12 --passphrase-file {files}/passphrase --environment production',
  ],
  ['', 'credential fcm --app {app} --service-account {files}/account.json'],
  // Warns: the app does not use FCM, and one of its phones would need it.
  ['', 'credential fcm --app {seen} --service-account {files}/account.json'],
  ['', 'credential list --app {seen}'],
  ['', 'credential remove fcm --app {seen}'],
  ['', 'credential web-push --app {app} --contact mailto:you@mail.net'],
  ['', 'credential web-push --app {app} --private-key-file {files}/pair --replace'],
  ['', 'credential list --app {app}'],
  ['', 'credential remove apns --environment production --app {app}'],
  ['', 'credential list --app {app}'],
  ['webhook', 'webhook add --app {app} --url https://receiver.example/path'],
  ['', 'webhook list --app {app}'],
  ['', 'webhook edit {webhook} --app {app} --url https://b.example/ --events push.finished'],
  ['', 'webhook edit {webhook} --app {app} --events push.finished,recipient.failed'],
  ['', 'webhook rotate {webhook} --app {app}'],
  ['', 'webhook test {webhook} --app {app}'],
  ['', 'webhook replay {webhook} --app {app} --from 2026-01-01T00:00:00Z'],
  ['', 'webhook off {webhook} --app {app}'],
  ['', 'webhook list --app {app}'],
  ['', 'webhook on {webhook} --app {app}'],
  ['second', 'webhook add --app {app} --url https://c.example/ --events push.finished'],
  ['', 'webhook remove {second} --app {app}'],
  ['', 'webhook list --app {app}'],
  ['', 'failures redrive --app {seen} --push {push} --channel mqtt --from 30d --no-wait'],
];

/** Command lines that change nothing. */
const READS = [
  'webhook deliveries {seen} --app {seen}',
  'account list',
  'account list --limit 1000',
  'account list --limit 210',
  `account list --limit 150 --after ${'8'.repeat(24)}`,
  'app list',
  `app list --account ${ACCOUNT}`,
  'app list --limit 1',
  'app list --after {seen}',
  'credential list --app {seen}',
  'device list --app {seen}',
  'device list --app {seen} --limit 2',
  'device list --app {seen} --after {device}',
  'device pushes {device}',
  'device pushes {device} --limit 1',
  'push list --app {seen}',
  'push list --app {seen} --limit 1',
  'push list --app {seen} --before {open}',
  'push list --app {seen} --state finished --outcome failed --since 1h',
  'push list --app {seen} --topic news',
  'topic list --app {seen}',
  'topic list --app {seen} --limit 1',
  'topic show news --app {seen}',
  'topic show news --app {seen} --limit 2',
  'failures list --app {seen}',
  'failures list --app {seen} --channel mqtt --reason rejected-by-provider --from 1h',
  'failures list --app {seen} --channel apns',
  'failures list --app {seen} --to 2026-01-01T00:00:00Z',
  'push outcomes {push}',
  'push outcomes {open}',
  'push outcomes {push} --token {device}',
];

/** Runs a command line with the names of ids filled in. */
function runLine(
  line: string,
  { env, ids, options }: Record<'env' | 'ids', Record<string, string>> & { options: string[] },
) {
  const filled = line.replace(/\{(\w+)\}/g, (_, id: string) => ids[id] ?? `no ${id}`);
  return runCarillon([...filled.split(' '), ...options], { env });
}

/** Runs all commands in an installation without other accounts; returns what each printed, and what is stored then. */
async function runAll(env: Record<string, string>, ...options: string[]) {
  for (const name of WRITTEN)
    await started.db
      .collection<{ _id: string }>(name)
      .deleteMany({ _id: { $nin: [ACCOUNT, APP] } });
  const ids = { ...shared };
  const printed: string[] = [];
  const hide = hideRandomness();
  for (const [name, line] of COMMANDS) {
    const { code, out, err } = await runLine(line, { env, ids, options });
    ids[name] = /[0-9a-f]{24}/.exec(out)?.[0] ?? '';
    printed.push(hide(`${line}\n${code} ${out}${err}`));
  }
  const stored: string[][] = [];
  for (const name of WRITTEN) {
    const documents = await started.db.collection(name).find().toArray();
    stored.push(documents.map((document) => hide(JSON.stringify(document, omitSealed))).sort());
  }
  return { printed, stored };
}

/** Sealed texts differ each time; re-drives have the name of the command line or of the token. */
function omitSealed(name: string, value: unknown): unknown {
  return ['secret', 'sealed', 'address', 'digest', 'revision', 'by'].includes(name)
    ? 'hidden'
    : value;
}

/** Returns a function that numbers ids in their order, and hides times and what is made at random. */
function hideRandomness(): (text: string) => string {
  const ids: string[] = [];
  return (text) =>
    text
      .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
      .replace(/\b[0-9a-f]{64}\b/g, 'KEY')
      .replace(/whsec_[\w+/=-]+/g, 'SECRET')
      .replace(/\b[\w-]{87}\b/g, 'PUBLIC-KEY')
      .replace(/…\w{4}|"lastFour":"\w{4}"/g, 'LAST-FOUR')
      .replace(/\b[0-9a-f]{24}\b/g, (id) => {
        if (!ids.includes(id)) ids.push(id);
        return `ID-${ids.indexOf(id)}`;
      });
}

describe('the same commands over the database and over the console', () => {
  test.each([
    ['lines', []],
    ['JSON', ['--json']],
  ])('print the same %s, and store the same', async (_, options) => {
    const local = await runAll(overDatabase(), ...options);
    const remote = await runAll(overConsole(), ...options);
    expect(local.printed.filter((text) => !/^.*\n0 /.test(text))).toEqual([]);
    expect(remote.printed).toEqual(local.printed);
    expect(remote.stored).toEqual(local.stored);
  });

  test('print the same lists and pages', async () => {
    for (let n = 0; n < 230; n += 1) await started.store.accounts.create(`${n}`, 'pro');
    for (const line of READS) {
      for (const options of [[], ['--json']]) {
        const local = await runLine(line, { env: overDatabase(), ids: shared, options });
        const remote = await runLine(line, { env: overConsole(), ids: shared, options });
        expect([line, remote]).toEqual([line, { ...local, code: 0 }]);
      }
    }
  });
});

/** Runs a command line with `--json`; the token must be in none of its output. */
async function fail(env: Record<string, string>, line: string) {
  const { code, out, err } = await runCarillon([...line.split(' '), '--json'], { env });
  if (env.CARILLON_TOKEN) expect(out + err).not.toContain(env.CARILLON_TOKEN);
  return { code, error: JSON.parse(out).error, err };
}

describe('over the console', () => {
  test.each<[string, () => Promise<string>]>([
    ['unknown', async () => `cop_${'x'.repeat(43)}`],
    ['of another form', async () => 'secret'],
    [
      'revoked',
      async () => {
        const { id, token } = await newTokenWithId();
        await revokeOperatorToken(started.store, id);
        return token;
      },
    ],
    [
      'expired',
      async () => {
        const { id, token } = await newTokenWithId();
        const tokens = started.db.collection<{ _id: string }>('operatorTokens');
        const { modifiedCount } = await tokens.updateOne(
          { _id: id },
          { $set: { expiresAt: new Date(0) } },
        );
        expect(modifiedCount).toBe(1);
        return token;
      },
    ],
  ])('a token that is %s is named as the cause', async (_, make) => {
    const { code, err } = await fail(overConsole(await make()), 'account list');
    expect([code, err]).toEqual([
      1,
      'The token in CARILLON_TOKEN is not valid, has expired or was revoked.\n',
    ]);
  });

  test('a change names the role that it needs', async () => {
    const viewer = overConsole(await newToken({ role: 'viewer' }));
    expect((await runCarillon(['app', 'show', APP], { env: viewer })).code).toBe(0);
    const { code, err } = await fail(viewer, `key create --app ${APP}`);
    expect(code).toBe(1);
    expect(err).toBe('The console returned an error: This needs the role admin. (FORBIDDEN)\n');
  });

  test('an app of another account is not found, as one that does not exist', async () => {
    const other = await started.store.accounts.create('Other', 'pro');
    const env = overConsole(await newToken({ accounts: [other] }));
    for (const line of [
      ...['app show APP', 'app set APP --payload-limit 1', 'app pause APP'],
      ...['key list --app APP', 'key create --app APP', `key revoke ${UNKNOWN} --app APP`],
      ...['credential list --app APP', 'credential remove fcm --app APP'],
      ...[`webhook deliveries ${UNKNOWN} --app APP`],
      ...[`webhook resend ${UNKNOWN} ${UNKNOWN} --app APP`],
      ...['webhook list --app APP', `webhook off ${UNKNOWN} --app APP`],
      ...['push list --app APP', 'device list --app APP'],
    ]) {
      const foreign = await fail(env, line.replace('APP', APP));
      const absent = await fail(env, line.replace('APP', UNKNOWN));
      expect([line, foreign.code, foreign.err]).toEqual([line, 1, absent.err]);
      expect(foreign.err).toContain('NOT_FOUND');
    }
    const { out } = await runCarillon(['app', 'list', '--json'], { env });
    expect(JSON.parse(out)).toEqual([]);
  });

  test.each([
    [
      'a gateway is not named',
      `credential fcm --app ${APP} --service-account {account} --gateway a:1`,
      '--gateway',
    ],
    ['a key is not revoked without its app', `key revoke ${UNKNOWN}`, 'give --app'],
  ])('%s', async (_, line, named) => {
    const filled = line.replace('{account}', `${shared.files}/account.json`);
    const { code, err } = await fail(overConsole(), filled);
    expect({ code, err }).toEqual({ code: 2, err: expect.stringContaining(named) });
  });

  test.each(
    [
      ...['migrate', 'prepare', 'operator list', 'queues', 'doctor', 'credential reseal'],
      ...[`credential sandbox --app ${APP}`, `simulate --app ${APP}`, 'push status id'],
      ...['device show x', 'device erase x --now', 'canary --app x --state /nonexistent/x'],
      ...[
        'export devices --output /nonexistent/x',
        'import package.json --app x --source carillon --format ndjson',
      ],
    ].map((line) => [line]),
  )('carillon %s says that it needs another setting', async (line) => {
    const { code, err } = await runCarillon(line.split(' '), { env: overConsole() });
    expect({ code, err }).toEqual({
      code: 2,
      err: expect.stringMatching(
        /^This command does not work over the console in CARILLON_CONSOLE: set \w+ too\.\n$/,
      ),
    });
  });

  test('what it cannot do goes on over the database, if there are its settings', async () => {
    const env = { ...overDatabase(), ...overConsole() };
    const { code, out } = await runCarillon(['operator', 'list', '--json'], { env });
    expect([code, out]).toEqual([0, '[]\n']);
  });
});

describe('settings of the console that are refused', () => {
  test('an address without a token, and a token without an address', async () => {
    const { CARILLON_CONSOLE, CARILLON_TOKEN } = overConsole();
    const [noToken, noConsole] = await Promise.all([
      fail({ ...overDatabase(), CARILLON_CONSOLE }, 'account list'),
      fail({ ...overDatabase(), CARILLON_TOKEN }, 'account list'),
    ]);
    const text = 'is set without';
    expect(noToken).toMatchObject({
      ...{ code: 2, err: `CARILLON_CONSOLE ${text} CARILLON_TOKEN: set both, or neither.\n` },
    });
    expect(noConsole).toMatchObject({
      ...{ code: 2, err: `CARILLON_TOKEN ${text} CARILLON_CONSOLE: set both, or neither.\n` },
    });
  });

  test.each(['http://push.example.com', 'http://10.0.0.1:8080/', 'http://127.0.0.1.example.com'])(
    '%s, which would get the token in clear text',
    async (address) => {
      const env = { ...overConsole(), CARILLON_CONSOLE: address };
      const { code, err } = await fail(env, 'account list');
      expect({ code, err }).toEqual({
        code: 2,
        err: expect.stringMatching(/^CARILLON_CONSOLE must be an https address: .*\n$/),
      });
    },
  );

  test('a token that is no header', async () => {
    const { code } = await fail({ ...overConsole(), CARILLON_TOKEN: 'secret\ntoken' }, 'app list');
    expect(code).toBe(2);
  });

  test('a server that does not respond, one that is another, and one that redirects', async () => {
    const away = { ...overConsole(), CARILLON_CONSOLE: 'http://127.0.0.1:1' };
    const unreachable = await fail(away, 'account list');
    expect(unreachable.code).toBe(3);
    expect(unreachable.err).toContain("The console at http://127.0.0.1:1 can't be reached");
    const requests: string[] = [];
    const server = createServer(({ url = '' }, response) => {
      requests.push(url);
      const isMoved = url.startsWith('/moved');
      response.writeHead(isMoved ? 307 : 200, { location: '/elsewhere' }).end('{}');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const other = { ...overConsole(), CARILLON_CONSOLE: `http://127.0.0.1:${port}` };
    const { code, err } = await fail(other, 'account list');
    const moved = { ...other, CARILLON_CONSOLE: `${other.CARILLON_CONSOLE}/moved` };
    expect((await fail(moved, 'account create x')).code).toBe(3);
    expect(requests).toEqual(['/api/v1/accounts?limit=100', '/moved/api/v1/accounts']);
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    expect({ code, err }).toEqual({ code: 1, err: expect.stringContaining('another version') });
  });
});
