import { generateKeyPairSync } from 'node:crypto';
import { createOperatorToken } from '@carillon/admin/operator-tokens';
import { boxKeyOf } from '@carillon/core/sealed-box';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  type Browser,
  type ConsoleUnderTest,
  createProgram,
  inviteBrowser,
  setUpOwner,
  startConsole,
} from './console-under-test.ts';

const DAY_MS = 86_400_000;
/** Of the form of a token, of which there is none. */
const WRONG = `cop_${'w'.repeat(43)}`;

let started: ConsoleUnderTest;
let owner: Browser;

beforeAll(async () => {
  started = await startConsole();
  owner = await setUpOwner(started);
  await started.store.webhooks.putBoxKey(boxKeyOf(started.env.CREDENTIAL_KEYS));
});
afterAll(() => started.stop());

const tokens = () => started.db.collection('operatorTokens');

async function createToken(fields: object = {}) {
  const grant = { name: 'deploy', role: 'admin', accounts: 'all', ...fields };
  const { status, body } = await owner.post('/api/operators/tokens', grant);
  if (status !== 200) throw new Error(`no token: ${JSON.stringify(body)}`);
  return { id: String(body.id), program: createProgram(started.url, body.token) };
}

type Program = ReturnType<typeof createProgram>;

/** Calls a route, which must succeed. */
async function succeed(request: ReturnType<Program['get']>) {
  const { status, body } = await request;
  expect([status, body.error]).toEqual([200, undefined]);
  return body;
}

const statusOf = async (program: Program) => (await program.get('/api/accounts')).status;

const encode = (text: string) => Buffer.from(text).toString('base64');
function pemOf(type: 'ec' | 'rsa'): string {
  const { privateKey } =
    type === 'ec'
      ? generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
      : generateKeyPairSync('rsa', { modulusLength: 2_048 });
  return privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
}
const SERVICE_ACCOUNT = {
  ...{ type: 'service_account', project_id: 'shop', private_key_id: 'k1' },
  ...{ client_email: 'push@shop.iam.gserviceaccount.com', private_key: pemOf('rsa') },
  token_uri: 'https://oauth2.googleapis.com/token',
};

describe('a program', () => {
  test('makes an account and an app with keys, credentials of three providers and a webhook, rotates and revokes them', async () => {
    const { program } = await createToken();
    const { id: account } = await succeed(program.post('/api/accounts', { name: 'Shop' }));
    const renamed = { name: 'Shop AG', requestLimit: 600 };
    expect(await succeed(program.put(`/api/accounts/${account}`, renamed))).toMatchObject({
      ...{ name: 'Shop AG', limit: 600, suspended: false },
    });
    const { id: app } = await succeed(program.post('/api/apps', { account, name: 'Phones' }));
    const path = `/api/apps/${app}`;
    const settings = { name: 'Shop', registration: 'closed', paused: true };
    expect(await succeed(program.put(path, settings))).toMatchObject(settings);
    expect(await succeed(program.get(path))).toMatchObject({ account, ...settings });
    const wrong = await program.put(path, { nmae: 'Shop' });
    expect([wrong.status, wrong.body.code]).toEqual([400, 'INVALID_PARAM']);

    const credential = (channel: string, body: object) =>
      succeed(program.put(`${path}/credentials/${channel}`, body));
    const key = () => ({ name: 'AuthKey_ABCDE12345.p8', base64: encode(pemOf('ec')) });
    await credential('apns', { key: key(), teamId: 'TEAM123456' });
    const base64 = encode(JSON.stringify(SERVICE_ACCOUNT));
    await credential('fcm', { serviceAccount: { name: 'shop.json', base64 } });
    await credential('web-push', { contact: 'mailto:push@mail.net' });
    const channels = async () => {
      const { items } = await succeed(program.get(`${path}/credentials`));
      return items.map(({ channel }: { channel: string }) => channel).sort();
    };
    expect(await channels()).toEqual(['apns', 'fcm', 'web-push']);
    await credential('apns', { key: key(), teamId: 'TEAM654321' });
    await succeed(program.delete(`${path}/credentials/fcm`));
    expect(await channels()).toEqual(['apns', 'web-push']);

    const [{ id: first }] = (await succeed(program.get(`${path}/keys`))).items;
    const second = await succeed(program.post(`${path}/keys`));
    await succeed(program.delete(`${path}/keys/${first}`));
    const { items: keys } = await succeed(program.get(`${path}/keys`));
    expect(keys).toMatchObject([
      { id: first, revokedAt: expect.any(Number) },
      { id: second.id, lastFour: second.key.slice(-4) },
    ]);

    const hook = { url: 'https://receiver.example/hook', events: ['push.finished'] };
    const { id: webhook, secret } = await succeed(program.post(`${path}/webhooks`, hook));
    const rotated = await succeed(program.post(`${path}/webhooks/${webhook}/rotate`));
    expect([rotated.secret === secret, rotated.secret]).toEqual([
      ...[false, expect.stringMatching(/^whsec_/)],
    ]);
    await succeed(program.delete(`${path}/webhooks/${webhook}`));
    await succeed(program.put(`/api/accounts/${account}`, { suspended: true }));
    expect(await succeed(program.get(`/api/accounts/${account}`))).toMatchObject({
      suspended: true,
    });
  });

  test('is in the audit log by the name and id of its token', async () => {
    const { id, program } = await createToken({ name: 'terraform' });
    const { id: account } = await succeed(program.post('/api/accounts', { name: 'Audited' }));
    expect((await program.put(`/api/accounts/${account}`, {})).status).toBe(400);
    const { items } = (await owner.get(`/api/audit?actor=${encodeURI('token terraform')}`)).body;
    const actor = { id, name: 'token terraform' };
    expect(items).toMatchObject([
      { actor, action: 'account.change', result: 'INVALID_PARAM' },
      { actor, action: 'account.create', facts: { name: 'Audited' }, result: 'done' },
    ]);
    const [created] = (await owner.get('/api/audit?action=operator.create-token')).body.items;
    const facts = { id, name: 'terraform', role: 'admin', accounts: 'all', days: 90 };
    expect(created).toMatchObject({ actor: { name: 'Owner' }, facts, result: 'done' });
  });

  test('sees the accounts of its token only', async () => {
    const { id: account } = (await owner.post('/api/accounts', { name: 'Own' })).body;
    const { program } = await createToken({ role: 'viewer', accounts: [account] });
    expect(await succeed(program.get('/api/accounts'))).toMatchObject({ items: [{ id: account }] });
  });
});

describe('a token', () => {
  test('is shown once, and listed with its maker, last use and expiry', async () => {
    const { id, program } = await createToken({ name: 'listed', days: 1 });
    const find = async () => {
      const { items } = (await owner.get('/api/operators/tokens?limit=100')).body;
      expect(JSON.stringify(items)).not.toContain(program.token);
      return items.find((one: { id: string }) => one.id === id);
    };
    const before = await find();
    expect(before).toMatchObject({ name: 'listed', role: 'admin', accounts: 'all', by: 'Owner' });
    expect(before.expiresAt - before.createdAt).toBe(DAY_MS);
    expect(before).not.toHaveProperty('lastUsedAt');
    await succeed(program.get('/api/accounts'));
    expect((await find()).lastUsedAt).toBeGreaterThanOrEqual(before.createdAt);
  });

  test('is accepted by no request after it is revoked', async () => {
    const { id, program } = await createToken();
    const revoke = () => owner.delete(`/api/operators/tokens/${id}`);
    expect(await statusOf(program)).toBe(200);
    expect((await revoke()).status).toBe(200);
    expect(await statusOf(program)).toBe(401);
    expect((await revoke()).status).toBe(404);
  });

  test('is accepted by no request after it has expired, and is not listed', async () => {
    const { id, program } = await createToken();
    expect(await statusOf(program)).toBe(200);
    await tokens().updateMany({}, { $set: { expiresAt: new Date(Date.now() - 1) } });
    expect(await statusOf(program)).toBe(401);
    const { items } = (await owner.get('/api/operators/tokens')).body;
    expect(items.filter((one: { id: string }) => one.id === id)).toEqual([]);
  });

  test('that is stored while its maker is disabled is not accepted; one of the command line is', async () => {
    const { id: by } = await inviteBrowser(owner, started.url, { name: 'Maker', role: 'owner' });
    await owner.put(`/api/operators/${by}`, { disabled: true });
    const grant = { name: 'late', role: 'viewer', accounts: 'all', seconds: 60 } as const;
    const { token } = await createOperatorToken(started.store, { ...grant, by });
    expect(await statusOf(createProgram(started.url, token))).toBe(401);
    const ofCommandLine = await createOperatorToken(started.store, grant);
    expect(await statusOf(createProgram(started.url, ofCommandLine.token))).toBe(200);
  });

  test('has a name, a role below owner, an expiry within 366 days, and accounts that exist', async () => {
    const wrong = [
      ...[{ name: '' }, { name: 'x'.repeat(65) }, { name: 'a\u0000b' }, { role: 'owner' }],
      ...[{ days: 0 }, { days: 367 }, { days: null }, { accounts: undefined }],
    ];
    const grant = { name: 'x', role: 'viewer', accounts: 'all' };
    for (const fields of wrong) {
      const { status } = await owner.post('/api/operators/tokens', { ...grant, ...fields });
      expect([fields, status]).toEqual([fields, 400]);
    }
    const unknown = { ...grant, accounts: ['f'.repeat(24)] };
    expect((await owner.post('/api/operators/tokens', unknown)).status).toBe(404);
  });

  test('has its last use written once by many requests within a minute, and again after it', async () => {
    const { id, program } = await createToken();
    const countWrites = async () => {
      const ns = `${started.db.databaseName}.operatorTokens`;
      return started.db.collection('system.profile').countDocuments({
        ...{ op: 'update', ns, nModified: 1 },
      });
    };
    await started.db.command({ profile: 2 });
    await Promise.all(Array.from({ length: 20 }, () => statusOf(program)));
    expect(await statusOf(program)).toBe(200);
    expect(await countWrites()).toBe(1);
    const earlier = new Date(Date.now() - 61_000);
    await started.db.command({ profile: 0 });
    await tokens().updateMany({}, { $set: { lastUsedAt: earlier } });
    await statusOf(program);
    const { items } = (await owner.get('/api/operators/tokens')).body;
    const { lastUsedAt } = items.find((one: { id: string }) => one.id === id);
    expect(lastUsedAt).toBeGreaterThan(earlier.getTime());
  });

  test.each([
    ['no header', undefined, 0],
    ['another scheme', `Basic ${WRONG}`, 0],
    ['no prefix', `Bearer ${'w'.repeat(43)}`, 0],
    ['a text that is too long', `Bearer ${WRONG}w`, 0],
    ['the form of a token', `Bearer ${WRONG}`, 1],
  ])('that does not exist gets the same response with %s', async (_, authorization, reads) => {
    const { db, url } = started;
    const profile = db.collection('system.profile');
    await db.command({ profile: 2 });
    const count = () => profile.countDocuments({ ns: `${db.databaseName}.operatorTokens` });
    const before = await count();
    const headers = { ...(authorization !== undefined && { authorization }) };
    const response = await fetch(`${url}/api/v1/accounts`, { headers });
    const { requestId, ...body } = (await response.json()) as Record<string, unknown>;
    expect([response.status, body]).toEqual([
      401,
      {
        code: 'UNAUTHENTICATED',
        error:
          'The header "Authorization" must be "Bearer", a space and an operator token that has not ended.',
      },
    ]);
    expect((await count()) - before).toBe(reads);
    await db.command({ profile: 0 });
  });
});
