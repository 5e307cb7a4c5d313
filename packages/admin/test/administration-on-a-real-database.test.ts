import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { digestApiKey } from '@carillon/core/api-key';
import { failureCode } from '@carillon/core/outcomes';
import { parseSealingKeys, unseal } from '@carillon/core/sealing';
import { credentialId } from '@carillon/store/credentials';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { APP, deliver, insertPush, newTokens, SHAPES } from '../../store/test/store-under-test.ts';
import { useStore } from '../../store/test/use-store.ts';
import {
  createAccount,
  getAccount,
  listAccounts,
  renameAccount,
  resumeAccount,
  setRequestLimit,
  suspendAccount,
} from '../src/accounts.ts';
import { createApp, getApp, listApps, updateAppSettings } from '../src/apps.ts';
import { saveSandboxCredentials } from '../src/credential/sandbox.ts';
import { saveWebPush, verifyWebPush } from '../src/credential/web-push.ts';
import { listCredentials, removeCredential, saveCredential } from '../src/credentials.ts';
import { ensureDemoApp } from '../src/demo-app.ts';
import { listDevicePushes } from '../src/device-details.ts';
import { listDevices } from '../src/devices.ts';
import { checkDatabase } from '../src/doctor.ts';
import { listFailures } from '../src/failures.ts';
import { createKey, listKeys, revokeKey } from '../src/keys.ts';
import { getPushOutcomes, getRecipientOutcome, listPushes } from '../src/pushes.ts';
import { getRedrive } from '../src/redrives.ts';
import { getTopic, listTopics } from '../src/topics.ts';

const SECRETS = {
  pepper: 'p'.repeat(64),
  sealingKeys: parseSealingKeys(`1:${'a'.repeat(64)}`),
};
const KEYS = SECRETS.sealingKeys;
const UNKNOWN = '000000000000000000000000';
const FIRST_PAGE = { limit: 2 };
const UNREACHABLE = 'http://127.0.0.1:1';

const database = useStore();
const { store } = database;

async function newApp(): Promise<{ account: string; id: string; apiKey: string }> {
  const { id: account } = await createAccount(store, 'One', 'trial');
  return { account, ...(await createApp(store, SECRETS, { name: 'One', account })) };
}

describe('an unknown id is reported by a code', () => {
  const KEY = { app: UNKNOWN, channel: 'fcm' } as const;
  const ONE = { name: 'x', account: UNKNOWN };
  const PAIR = verifyWebPush({});

  test.each<[string, string, () => Promise<unknown>]>([
    ['getAccount', 'ACCOUNT', () => getAccount(store, UNKNOWN)],
    ['renameAccount', 'ACCOUNT', () => renameAccount(store, UNKNOWN, 'x')],
    ['setRequestLimit', 'ACCOUNT', () => setRequestLimit(store, UNKNOWN, 1)],
    ['suspendAccount', 'ACCOUNT', () => suspendAccount(store, UNKNOWN)],
    ['resumeAccount', 'ACCOUNT', () => resumeAccount(store, UNKNOWN)],
    ['createApp', 'ACCOUNT', () => createApp(store, SECRETS, ONE)],
    ['getApp', 'APP', () => getApp(store, UNKNOWN)],
    ['updateAppSettings', 'APP', () => updateAppSettings(store, UNKNOWN, { payloadLimit: 1 })],
    ['createKey', 'APP', () => createKey(store, SECRETS.pepper, UNKNOWN)],
    ['listKeys', 'APP', () => listKeys(store, UNKNOWN)],
    ['revokeKey', 'KEY', () => revokeKey(store, UNKNOWN)],
    ['listCredentials', 'APP', () => listCredentials(store, UNKNOWN, undefined)],
    ['saveCredential', 'APP', () => saveCredential(store, KEYS, KEY, PAIR)],
    ['saveWebPush', 'APP', () => saveWebPush(store, KEYS, UNKNOWN, {})],
    ['removeCredential', 'CREDENTIAL', () => removeCredential(store, KEY)],
    ['listDevices', 'APP', () => listDevices(store, UNKNOWN, FIRST_PAGE)],
    ['listPushes', 'APP', () => listPushes(store, { app: UNKNOWN, limit: 1 })],
    ['listTopics', 'APP', () => listTopics(store, UNKNOWN, FIRST_PAGE)],
    ['getTopic', 'APP', () => getTopic(store, UNKNOWN, 'news')],
    ['getRedrive', 'REDRIVE', () => getRedrive(store, UNKNOWN)],
    ['listDevicePushes', 'DEVICE', () => listDevicePushes(store, 'f00d', FIRST_PAGE)],
    ['getPushOutcomes', 'PUSH', () => getPushOutcomes(store, UNKNOWN)],
    ['getRecipientOutcome', 'PUSH', () => getRecipientOutcome(store, UNKNOWN, 'f00d')],
  ])('%s: %s_NOT_FOUND', async (_name, subject, run) => {
    await expect(run()).rejects.toMatchObject({ name: 'AdminError', code: `${subject}_NOT_FOUND` });
  });

  test('and creates nothing', async () => {
    expect(await store.apps.find(UNKNOWN)).toBeUndefined();
    expect(await store.credentials.list(UNKNOWN)).toEqual([]);
    expect(await store.keys.list(UNKNOWN)).toEqual([]);
  });
});

test('an account has a name and a limit, and can be suspended and resumed', async () => {
  const { id } = await createAccount(store, 'Two', 'pro');
  const view = { id, name: 'Two', plan: 'pro', limit: null };
  expect(await setRequestLimit(store, id, null)).toEqual({ ...view, suspended: false });
  expect(await suspendAccount(store, id)).toEqual({ ...view, suspended: true });
  expect(await resumeAccount(store, id)).toEqual({ ...view, suspended: false });
  const renamed = { ...view, name: 'Three', suspended: false };
  expect(await renameAccount(store, id, 'Three')).toEqual(renamed);
  expect(await getAccount(store, id)).toEqual(renamed);
});

test('a page has a cursor until the list ends', async () => {
  const { account, id } = await newApp();
  await Promise.all([1, 2].map(() => createApp(store, SECRETS, { name: 'More', account })));
  const first = await listApps(store, { ...FIRST_PAGE, account });
  expect(first.next).toBe(first.items[1]?.id);
  const second = await listApps(store, { ...FIRST_PAGE, account, cursor: first.next });
  const ids = [...first.items, ...second.items].map((app) => app.id);
  expect(ids).toEqual([...new Set(ids)].sort());
  expect(ids).toHaveLength(3);
  expect(ids).toContain(id);
  expect(second).not.toHaveProperty('next');
  expect((await listAccounts(store, { limit: 1 })).next).toBeDefined();
});

test('a new app has a key that works and a key pair for Web Push', async () => {
  const { account, id, apiKey } = await newApp();
  const owner = await store.keys.owner(digestApiKey(SECRETS.pepper, apiKey));
  expect(owner).toMatchObject({ app: { _id: id }, account: { _id: account } });
  expect(await store.keys.owner(digestApiKey('q'.repeat(64), apiKey))).toBeUndefined();
  expect(await store.credentials.webPushPublicKey(id)).toMatch(/^[\w-]{87}$/);
});

test('keys are listed without their secrets, and a revoked key has no owner', async () => {
  const { id: app } = await newApp();
  const { id, apiKey } = await createKey(store, SECRETS.pepper, app);
  const listed = await listKeys(store, app);
  expect(listed.map(({ lastFour }) => lastFour)).toContain(apiKey.slice(-4));
  expect(JSON.stringify(listed)).not.toMatch(/digest|[0-9a-zA-Z]{64}/);
  await revokeKey(store, id);
  expect(await store.keys.owner(digestApiKey(SECRETS.pepper, apiKey))).toBeUndefined();
  await expect(revokeKey(store, id)).rejects.toMatchObject({ code: 'KEY_NOT_FOUND' });
});

test('a key’s last use is written at most once a minute, and never set back', async () => {
  const { id: app } = await newApp();
  const { id } = await createKey(store, SECRETS.pepper, app);
  const lastUse = async () =>
    (await listKeys(store, app)).find((key) => key.id === id)?.lastUsedAt?.getTime();
  const use = async (at: number) => {
    await store.keys.markUsed([{ id, at }]);
    return lastUse();
  };
  expect(await lastUse()).toBeUndefined();
  expect(await use(100_400)).toBe(100_000);
  expect(await use(159_999)).toBe(100_000);
  expect(await use(160_000)).toBe(160_000);
  expect(await use(40_000)).toBe(160_000);
});

test('settings that are not given stay as they are', async () => {
  const { id } = await newApp();
  await updateAppSettings(store, id, { payloadLimit: 10, bundleIds: ['com.example.a'] });
  const view = await updateAppSettings(store, id, { registrationClosed: true, bundleIds: [] });
  expect(view).toMatchObject({ payloadLimit: 10, registration: 'closed', bundleIds: [] });
  expect(await getApp(store, id)).toEqual(view);
});

describe('the key pair for Web Push', () => {
  test('keeps its public key when only the contact changes', async () => {
    const { id } = await newApp();
    const publicKey = await store.credentials.webPushPublicKey(id);
    const contact = 'mailto:you@mail.net';
    expect(await saveWebPush(store, KEYS, id, { contact })).toMatchObject({ publicKey, contact });
  });

  test('is replaced only on request, and keeps its contact then', async () => {
    const { id } = await newApp();
    const contact = 'mailto:you@mail.net';
    await saveWebPush(store, KEYS, id, { contact });
    const publicKey = await store.credentials.webPushPublicKey(id);
    const { secret } = verifyWebPush({});
    if (secret.kind !== 'web-push') throw new Error(secret.kind);
    const privateKey = { name: 'key', content: Buffer.from(secret.privateKey) };
    for (const options of [{}, { privateKey }]) {
      await expect(saveWebPush(store, KEYS, id, options)).rejects.toMatchObject({
        code: 'KEY_PAIR_EXISTS',
        fields: expect.arrayContaining(['replace']),
      });
      expect(await store.credentials.webPushPublicKey(id)).toBe(publicKey);
    }
    const saved = await saveWebPush(store, KEYS, id, { privateKey, replace: true });
    expect(saved).toMatchObject({ contact });
    expect(await store.credentials.webPushPublicKey(id)).toBe(secret.publicKey);
  });
});

test('a credential can be opened for its app and its channel alone', async () => {
  const { id: app } = await newApp();
  const key = { app, channel: 'web-push' } as const;
  const found = await store.credentials.find(key);
  if (found === undefined) throw new Error('the app has no credential');
  const opened = JSON.parse(unseal(KEYS, credentialId(key), found.secret));
  expect(opened).toMatchObject({ kind: 'web-push' });
  for (const other of [{ ...key, app: UNKNOWN }, { app, channel: 'fcm' } as const])
    expect(() => unseal(KEYS, credentialId(other), found.secret)).toThrow();
});

test('a credential is listed without its secret until it is removed', async () => {
  const { id: app } = await newApp();
  const [view, ...others] = await listCredentials(store, app, undefined);
  expect(others).toEqual([]);
  expect(view).toMatchObject({ id: `${app}:web-push`, app, channel: 'web-push' });
  expect(view).not.toHaveProperty('secret');
  await removeCredential(store, { app, channel: 'web-push' });
  expect(await listCredentials(store, app, undefined)).toEqual([]);
});

describe('the demo app', () => {
  test('that exists is kept, needs no sandbox, and gets no credential that it has not', async () => {
    const { id } = await newApp();
    const options = { existing: id, sandbox: UNREACHABLE };
    expect(await ensureDemoApp(store, SECRETS, options)).toEqual({ app: id });
    expect(await listCredentials(store, id, undefined)).toHaveLength(1);
  });

  test('is made without credentials of providers where there is no sandbox', async () => {
    const options = { existing: undefined, sandbox: undefined };
    const { app, apiKey } = await ensureDemoApp(store, SECRETS, options);
    expect(apiKey).toMatch(/^[0-9a-f]{64}$/);
    expect((await listCredentials(store, app, undefined)).map(({ channel }) => channel)).toEqual([
      'web-push',
    ]);
  });

  test.each([UNKNOWN, undefined])('is created again instead of %s', async (existing) => {
    const made = ensureDemoApp(store, SECRETS, { existing, sandbox: UNREACHABLE });
    await expect(made).rejects.toMatchObject({ code: 'SANDBOX_UNREACHABLE' });
  });
});

describe('a sandbox that is not usable is reported by a code and saves nothing', () => {
  let server: Server;
  beforeAll(async () => {
    server = createServer((_, response) => response.end('{}'));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  });
  afterAll(() => new Promise((resolve) => server.close(resolve)));

  test.each([
    ['that does not respond', () => UNREACHABLE],
    ['that is another server', () => `http://127.0.0.1:${(server.address() as AddressInfo).port}`],
  ])('%s', async (_, url) => {
    const { id: app } = await newApp();
    const saved = saveSandboxCredentials(store, KEYS, app, url());
    await expect(saved).rejects.toMatchObject({ code: 'SANDBOX_UNREACHABLE' });
    expect(await listCredentials(store, app, undefined)).toHaveLength(1);
  });
});

test('the findings of a healthy database report no fault', async () => {
  await store.migrate();
  const findings = await checkDatabase(store, 'db:1', undefined);
  expect(findings[0]).toMatchObject({
    check: 'mongodb',
    detail: expect.stringMatching(/ at db:1$/),
  });
  const unhealthy = findings.filter(({ ok, check }) => !ok && !check.endsWith('disk space'));
  expect(unhealthy).toEqual([]);
});

test('batches of one push are one item, and each page continues after the last one', async () => {
  const ids: string[] = [];
  const rejected = failureCode('rejected-by-provider');
  for (const shape of SHAPES) {
    const tokens = newTokens(4);
    const push = await insertPush(database, tokens, { shape });
    const codes = Object.fromEntries(tokens.map((token) => [token, rejected]));
    await deliver(store, push, { ...codes, [tokens[0] ?? '']: failureCode('inbox-full') });
    ids.unshift(push.id);
  }
  const reasons = [
    { reason: 'rejected-by-provider', text: 'rejected-by-provider', count: 3 },
    { reason: 'inbox-full', text: 'inbox-full', count: 1 },
  ];
  const all = await listFailures(store, APP, { limit: 10 });
  expect(all.items).toMatchObject(
    ids.map((push) => ({ push, channel: 'mqtt', failed: 4, redriven: 0, reasons })),
  );
  expect(all.next).toBeUndefined();
  const first = await listFailures(store, APP, { limit: 2 });
  expect(first.items.map(({ push }) => push)).toEqual(ids.slice(0, 1));
  const second = await listFailures(store, APP, { limit: 2, cursor: first.next });
  expect(second.items.map(({ push }) => push)).toEqual(ids.slice(1));
  const unreadable = await listFailures(store, APP, { limit: 10, cursor: '$ne' });
  expect(unreadable).toEqual(all);
});
