import { generateKeyPairSync, sign } from 'node:crypto';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { createOperatorToken } from '@carillon/admin/operator-tokens';
import { inviteOperator } from '@carillon/admin/operators';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import Provider, { type Adapter, type AdapterPayload } from 'oidc-provider';
import { freePort } from '../../../packages/presence/test/start-server.ts';
import {
  type Browser,
  type ConsoleResponse,
  type ConsoleUnderTest,
  createBrowser,
  createProgram,
  setUpOwner,
  startConsole,
  tokenOf,
} from './console-under-test.ts';

const CLIENT = { client_id: 'console', client_secret: 'a secret of the console' };
const ACCOUNT = 'a'.repeat(24);
const REFUSED = '/login?error=openid';
/** A key that the provider does not publish. */
const FOREIGN_KEY = generateKeyPairSync('rsa', { modulusLength: 2_048 }).privateKey;
/** ID tokens are signed again with the foreign key on their way. */
let isForging = false;
/** Claims of the provider's users by subject. */
const users = new Map<string, Record<string, unknown>>();

let started: ConsoleUnderTest;
let consoleUrl: string;
let providerUrl: string;
let providerServer: Server;

beforeAll(async () => {
  providerUrl = `http://127.0.0.1:${await freePort()}`;
  const port = await freePort();
  consoleUrl = `http://127.0.0.1:${port}`;
  providerServer = await startProvider(`${consoleUrl}/api/oidc/callback`);
  started = await startConsole({
    CONSOLE_URL: consoleUrl,
    DASHBOARD_LISTEN: `127.0.0.1:${port}`,
    OIDC_ISSUER: providerUrl,
    OIDC_CLIENT_ID: CLIENT.client_id,
    OIDC_CLIENT_SECRET: CLIENT.client_secret,
    OIDC_ROLE_CLAIM: 'groups',
    OIDC_ACCOUNTS_CLAIM: 'accounts',
  });
});
afterAll(async () => {
  await started.stop();
  providerServer.closeAllConnections();
  await new Promise((resolve) => providerServer.close(resolve));
});

/** Records that the provider has stored, by kind and id. */
const stored = new Map<string, AdapterPayload>();

/** Creates the provider's store of one kind of objects. Nothing of the tests is stored for longer than they run. */
function createAdapter(kind: string): Adapter {
  const findAny = async (fits: (payload: AdapterPayload) => boolean) =>
    [...stored].find(([key, payload]) => key.startsWith(`${kind} `) && fits(payload))?.[1];
  return {
    upsert: async (id, payload) => void stored.set(`${kind} ${id}`, payload),
    find: async (id) => stored.get(`${kind} ${id}`),
    findByUid: (uid) => findAny((payload) => payload.uid === uid),
    findByUserCode: (code) => findAny((payload) => payload.userCode === code),
    async consume(id) {
      const payload = stored.get(`${kind} ${id}`);
      if (payload !== undefined) payload.consumed = Math.floor(Date.now() / 1_000);
    },
    destroy: async (id) => void stored.delete(`${kind} ${id}`),
    async revokeByGrantId(grant) {
      for (const [key, { grantId }] of stored) if (grantId === grant) stored.delete(key);
    },
  };
}

/** Starts a provider that logs in the user of the cookie `user` without a page, and grants all consents. */
async function startProvider(redirectUri: string): Promise<Server> {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 });
  const key = { ...privateKey.export({ format: 'jwk' }), use: 'sig', alg: 'RS256' };
  const provider = new Provider(providerUrl, {
    adapter: createAdapter,
    jwks: { keys: [key] },
    clients: [
      { ...CLIENT, redirect_uris: [redirectUri], token_endpoint_auth_method: 'client_secret_post' },
    ],
    claims: { openid: ['sub', 'groups', 'accounts', 'preferred_username'] },
    pkce: { required: () => true },
    features: { devInteractions: { enabled: false } },
    ttl: { AccessToken: 60, Grant: 60, IdToken: 60, Interaction: 60, Session: 60 },
    cookies: { keys: ['a key of the provider'] },
    interactions: { url: (_context, { uid }) => `/interaction/${uid}` },
    findAccount: (_context, sub) => ({
      accountId: sub,
      claims: async () => ({ sub, ...users.get(sub) }),
    }),
    async loadExistingGrant({ oidc }) {
      const accountId = oidc.session?.accountId ?? '';
      const grant = new oidc.provider.Grant({ accountId, clientId: CLIENT.client_id });
      grant.addOIDCScope('openid profile email');
      await grant.save();
      return grant;
    },
  });
  const handle = provider.callback();
  const server = createServer((request, response) => {
    if (isForging && request.url === '/token') forgeIdToken(response);
    if (!request.url?.startsWith('/interaction/')) return void handle(request, response);
    const accountId = /user=(\w+)/.exec(request.headers.cookie ?? '')?.[1] ?? '';
    void provider.interactionFinished(request, response, { login: { accountId } });
  });
  await new Promise<void>((resolve) => {
    server.listen(Number(new URL(providerUrl).port), '127.0.0.1', resolve);
  });
  return server;
}

/** Has a response's ID token signed again with the foreign key, which changes nothing else of it. */
function forgeIdToken(response: ServerResponse): void {
  const end = response.end.bind(response) as (text: string) => ServerResponse;
  response.end = ((text: string | Buffer) => {
    const tokens = JSON.parse(String(text)) as { id_token: string };
    const signed = tokens.id_token.split('.').slice(0, 2).join('.');
    const signature = sign('RSA-SHA256', Buffer.from(signed), FOREIGN_KEY).toString('base64url');
    return end(JSON.stringify({ ...tokens, id_token: `${signed}.${signature}` }));
  }) as typeof response.end;
}

/** Follows the redirects through the provider as a browser does; returns the response of the callback. */
async function signOn(
  browser: Browser,
  user: string,
  { path = '/api/oidc/start?return=/apps?tab=1', edit = (url: URL) => url } = {},
): Promise<ConsoleResponse> {
  const atProvider = createBrowser(providerUrl);
  atProvider.cookies.set('user', user);
  let next = new URL((await browser.get(path)).headers.get('location') ?? '');
  while (next.origin === providerUrl) {
    const response = await atProvider.get(`${next.pathname}${next.search}`);
    const location = response.headers.get('location');
    if (location === null)
      throw new Error(`the provider responded with ${JSON.stringify(response.body)}`);
    next = new URL(location, providerUrl);
  }
  const callback = edit(next);
  return browser.get(`${callback.pathname}${callback.search}`);
}

/** Signs on in a browser of its own; returns where the callback leads, and the operator of the session. */
async function enter(user: string, options: Parameters<typeof signOn>[2] = {}) {
  const browser = createBrowser(consoleUrl);
  const { status, headers } = await signOn(browser, user, options);
  const session = await browser.get('/api/session');
  const to = headers.get('location');
  return { browser, status, to, session: session.status, operator: session.body.operator };
}

test('single sign-on creates an operator with the strongest role and the accounts of the claims', async () => {
  users.set('u1', {
    ...{ preferred_username: 'gina', groups: ['staff', 'viewer', 'admin'], accounts: [ACCOUNT] },
  });
  const { status, to, operator } = await enter('u1');
  expect([status, to]).toEqual([303, '/apps?tab=1']);
  expect(operator).toMatchObject({ name: 'gina', role: 'admin', accounts: [ACCOUNT] });
});

test('applies the role and the accounts of the claims again at the next login', async () => {
  users.set('u1', { preferred_username: 'gina', groups: 'viewer', accounts: [] });
  const { operator } = await enter('u1');
  expect(operator).toMatchObject({ name: 'gina', role: 'viewer', accounts: [] });
  expect(await started.db.collection('operators').countDocuments({ name: 'gina' })).toBe(1);
});

test('without a role claim gives no access, and ends open sessions', async () => {
  const before = await enter('u1');
  users.set('u1', { preferred_username: 'gina', groups: ['staff'] });
  expect(await enter('u1')).toMatchObject({ to: REFUSED, session: 401 });
  expect((await before.browser.get('/api/session')).status).toBe(401);
});

test.each([
  ['a weaker role', ['viewer']],
  ['no role', ['staff']],
])('ends the links and tokens of an owner to whom the claims give %s', async (_, groups) => {
  const { db, store } = started;
  const claims = { preferred_username: 'kim', accounts: [ACCOUNT] };
  users.set('u4', { ...claims, groups: ['viewer'] });
  await enter('u4');
  const owner = { $set: { role: 'owner', accounts: 'all' } };
  const kim = () => db.collection('operators').findOneAndUpdate({ name: 'kim' }, owner);
  const grant = { role: 'owner', accounts: 'all', by: String((await kim())?._id) } as const;
  const { link } = await inviteOperator(store, consoleUrl, grant);
  const setUp = { 'x-setup-token': tokenOf(link) };
  const ofProgram = { ...grant, name: 'program', role: 'viewer', seconds: 60 } as const;
  const program = createProgram(consoleUrl, (await createOperatorToken(store, ofProgram)).token);
  const isValid = async () => {
    const { valid } = (await createBrowser(consoleUrl).get('/api/setup', setUp)).body;
    expect((await program.get('/api/accounts')).status).toBe(valid ? 200 : 401);
    return valid;
  };
  expect(await isValid()).toBe(true);
  users.set('u4', { ...claims, groups });
  await enter('u4');
  expect(await isValid()).toBe(false);
  await kim();
  expect(await isValid()).toBe(false);
});

test('refuses a disabled operator, a foreign state, and another browser', async () => {
  users.set('u2', { preferred_username: 'hugo', groups: ['viewer'], accounts: [ACCOUNT] });
  const withState = (url: URL) => {
    url.searchParams.set('state', 'foreign');
    return url;
  };
  expect((await enter('u2', { edit: withState })).to).toBe(REFUSED);
  const browser = createBrowser(consoleUrl);
  const withoutCookies = (url: URL) => {
    browser.cookies.clear();
    return url;
  };
  const stolen = await signOn(browser, 'u2', { edit: withoutCookies });
  expect(stolen.headers.get('location')).toBe(REFUSED);
  expect((await enter('u2')).to).toBe('/apps?tab=1');
  const disabled = { $currentDate: { disabledAt: true } } as const;
  await started.db.collection('operators').updateOne({ name: 'hugo' }, disabled);
  expect((await enter('u2')).to).toBe(REFUSED);
});

test('a local operator of the same name is a separate operator, and the return path leads to no other site', async () => {
  await started.db.collection('operators').deleteMany({});
  await setUpOwner({ ...started, url: consoleUrl }, 'ida');
  users.set('u3', { preferred_username: 'ida', groups: ['viewer'] });
  expect(await enter('u3', { path: '/api/oidc/start?return=//evil.example/' })).toMatchObject({
    ...{ to: '/', operator: { name: 'ida (u3)', role: 'viewer', accounts: [] } },
  });
});

test('refuses an ID token that the provider has not signed', async () => {
  users.set('u4', { preferred_username: 'jane', groups: ['owner'] });
  isForging = true;
  const forged = await enter('u4');
  isForging = false;
  expect(forged.to).toBe(REFUSED);
  expect(await started.db.collection('operators').countDocuments({ name: 'jane' })).toBe(0);
  expect((await enter('u4')).to).toBe('/apps?tab=1');
});

test.each([
  ['a control character', 'u5', 'eve\u0000'],
  ['a change of direction', 'u6', 'eve\u202Enimda'],
  ['more characters than set-up allows', 'u7', 'e'.repeat(101)],
])('takes another claim for a name with %s', async (_what, user, name) => {
  users.set(user, { preferred_username: name, groups: ['viewer'] });
  expect((await enter(user)).operator).toMatchObject({ name: user });
});
