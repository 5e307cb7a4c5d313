import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { digestToken } from '@carillon/admin/operators';
import type { SessionDocument } from '@carillon/store/console-documents';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Binary } from 'mongodb';
import { createConsoleAddress } from '../src/http/address.ts';
import { createSessionReader } from '../src/http/session-reader.ts';
import { createBeginSession } from '../src/login/begin-session.ts';
import { createKnownBrowsers } from '../src/login/known-browsers.ts';
import {
  type Browser,
  type ConsoleUnderTest,
  createBrowser,
  inviteBrowser,
  PASSWORD,
  setUpOwner,
  startConsole,
  tokenOf,
} from './console-under-test.ts';

let started: ConsoleUnderTest;
let owner: Browser;
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'carillon-pages-'));
  started = await startConsole({}, folder);
  owner = await setUpOwner(started);
});
afterAll(async () => {
  await started.stop();
  await rm(folder, { recursive: true });
});

/** Sends a GET with a Host header, which fetch does not allow. */
function statusWithHost(host: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const sent = request(`${started.url}/api/login`, { headers: { host } }, (response) => {
      resolve(response.resume().statusCode);
    });
    sent.once('error', reject).end();
  });
}

/** Returns the document of a browser's session. */
function sessionOf({ cookies }: Browser) {
  const token = [...cookies].find(([name]) => name.includes('session'))?.[1] ?? '';
  const sessions = started.db.collection<SessionDocument>('sessions');
  return { sessions, _id: new Binary(digestToken(token)) };
}

/** Moves all times of a session back, as if MongoDB's clock had moved forward. */
async function moveBack(browser: Browser, ms: number): Promise<void> {
  const { sessions, _id } = sessionOf(browser);
  const fields = ['createdAt', 'seenAt', 'expiresAt'];
  const moved = fields.map((name) => [name, { $subtract: [`$${name}`, ms] }]);
  await sessions.updateOne({ _id }, [{ $set: Object.fromEntries(moved) }]);
}

describe('sessions', () => {
  test('the cookie is for http and this port, or for TLS alone', async () => {
    const logIn = async (url: string, origin = url) => {
      const body = { name: 'Owner', password: PASSWORD };
      const { headers } = await createBrowser(url).post('/api/login', body, { origin });
      return headers.getSetCookie().find((cookie) => cookie.includes('session')) ?? '';
    };
    const { port } = new URL(started.url);
    const plain = await logIn(started.url);
    expect(plain).toMatch(
      new RegExp(`^carillon-session-${port}=[\\w-]{43}; Path=/; HttpOnly; SameSite=Lax; Max-Age=`),
    );
    expect(plain).not.toContain('Secure');
    const CONSOLE_URL = 'https://push.example.com';
    const secure = await logIn(await started.startAnother({ CONSOLE_URL }), CONSOLE_URL);
    expect(secure).toMatch(/^__Host-carillon-session=[\w-]{43}; Path=\/; .*; Secure$/);
  });

  test('browsers use TLS alone behind an https CONSOLE_URL', async () => {
    const read = async (url: string) =>
      (await createBrowser(url).get('/api/login')).headers.get('strict-transport-security');
    expect(await read(started.url)).toBeNull();
    const secure = await started.startAnother({ CONSOLE_URL: 'https://push.example.com' });
    expect(await read(secure)).toBe('max-age=31536000');
  });

  test('one in use ends after 7 days, and one without a use after 12 hours', async () => {
    const daily = createBrowser(started.url);
    const unused = createBrowser(started.url);
    for (const browser of [daily, unused])
      await browser.post('/api/login', { name: 'Owner', password: PASSWORD });
    const statusAfter = async (browser: Browser, ms: number) => {
      await moveBack(browser, ms);
      return (await browser.get('/api/session')).status;
    };
    const elevenHours = 11 * 3_600_000;
    // Fifteen times, each after a use: 6 days and 21 hours.
    for (let n = 0; n < 15; n += 1) expect(await statusAfter(daily, elevenHours)).toBe(200);
    expect(await statusAfter(daily, elevenHours)).toBe(401);
    expect(await statusAfter(unused, 12 * 3_600_000 - 60_000)).toBe(200);
    expect(await statusAfter(unused, 12 * 3_600_000 + 60_000)).toBe(401);
  });

  test('only the digest of its token is stored, and logging in creates a new one', async () => {
    const readToken = () => [...owner.cookies].find(([name]) => name.includes('session'))?.[1];
    const token = readToken();
    const stored = JSON.stringify(await started.db.collection('sessions').find().toArray());
    expect(token).toMatch(/^[\w-]{43}$/);
    expect(stored).not.toContain(token);
    await owner.post('/api/login', { name: 'Owner', password: PASSWORD });
    expect(readToken()).not.toBe(token);
  });

  test.each([
    ['without the CSRF token', { 'x-csrf-token': '' }],
    ["with another session's CSRF token", { 'x-csrf-token': 'a'.repeat(43) }],
    ['from another site', { origin: 'http://evil.example' }],
    ['from another port', { origin: 'http://127.0.0.1:1' }],
    ['of a sandboxed frame', { origin: 'null' }],
  ])('a change %s is refused', async (_, headers) => {
    const { status } = await owner.post('/api/accounts', { name: 'x' }, headers);
    expect(status).toBe(403);
    expect((await owner.get('/api/accounts')).body.items).toEqual([]);
  });

  test('a login from another site and a form are refused', async () => {
    const body = { name: 'Owner', password: PASSWORD };
    const foreign = { origin: 'http://evil.example' };
    expect((await createBrowser(started.url).post('/api/login', body, foreign)).status).toBe(403);
    const form = { 'content-type': 'text/plain' };
    expect((await createBrowser(started.url).post('/api/login', body, form)).status).toBe(400);
  });

  test('a name that is not the console’s is refused, as DNS rebinding needs one', async () => {
    expect(await statusWithHost('evil.example')).toBe(421);
    for (const host of ['localhost:4010', '192.168.1.20:4010', '[fd00::1]:4010'])
      expect([host, await statusWithHost(host)]).toEqual([host, 200]);
  });

  test('a disabled operator has no session from then on, and can’t log in', async () => {
    const user = await inviteBrowser(owner, started.url, { name: 'dora', role: 'admin' });
    expect((await user.get('/api/session')).status).toBe(200);
    expect((await owner.put(`/api/operators/${user.id}`, { disabled: true })).status).toBe(200);
    expect((await user.get('/api/session')).status).toBe(401);
    const login = { name: 'dora', password: PASSWORD };
    const again = await createBrowser(started.url).post('/api/login', login);
    expect(again.body).toMatchObject({ code: 'UNAUTHENTICATED' });
  });

  test('a change of role applies to the open session', async () => {
    const user = await inviteBrowser(owner, started.url, { name: 'emil', role: 'admin' });
    expect((await user.post('/api/accounts', { name: 'by emil' })).status).toBe(200);
    await owner.put(`/api/operators/${user.id}`, { role: 'viewer' });
    expect((await user.post('/api/accounts', { name: 'by emil' })).status).toBe(403);
  });

  test('the last owner cannot be demoted, disabled or removed', async () => {
    const { body } = await owner.get('/api/session');
    const path = `/api/operators/${body.operator.id}`;
    expect((await owner.put(path, { role: 'viewer' })).status).toBe(409);
    expect((await owner.put(path, { disabled: true })).status).toBe(409);
    expect((await owner.delete(path)).status).toBe(409);
    expect((await owner.get('/api/session')).body.operator.role).toBe('owner');
  });

  test('logging out and a new password end sessions', async () => {
    const user = await inviteBrowser(owner, started.url, { name: 'fred', role: 'viewer' });
    const second = createBrowser(started.url);
    await second.post('/api/login', { name: 'fred', password: PASSWORD });
    const change = { current: PASSWORD, next: 'a password of more than 12' };
    expect((await second.post('/api/password', change)).status).toBe(200);
    expect((await user.get('/api/session')).status).toBe(401);
    expect((await second.get('/api/session')).status).toBe(200);
    const cookies = [...second.cookies];
    await second.post('/api/logout');
    for (const [name, value] of cookies) second.cookies.set(name, value);
    expect((await second.get('/api/session')).status).toBe(401);
  });

  test('a login with an old password, and a change by it, end when a new password comes first', async () => {
    const { store } = started;
    const user = await inviteBrowser(owner, started.url, { name: 'ivan', role: 'viewer' });
    const before = await store.operators.find(user.id);
    if (before?.passwordHash === undefined) throw new Error('no operator');
    const { operators } = store;
    expect(await operators.noteLogin(user.id, before.passwordHash)).toBe(true);
    const changed = await operators.setPassword(user.id, before.passwordHash, 'a new hash');
    expect(changed).toMatchObject({ passwordHash: 'a new hash' });
    expect(await operators.setPassword(user.id, before.passwordHash, 'late')).toBeUndefined();
    const address = createConsoleAddress(undefined);
    const beginSession = createBeginSession({
      ...{ store, sessions: createSessionReader(store, address) },
      knownBrowsers: createKnownBrowsers('p'.repeat(32), address),
      installation: { environment: '', apiUrl: undefined },
    });
    const request = { host: 'localhost', session: undefined };
    const sessions = started.db.collection<SessionDocument>('sessions');
    const count = () => sessions.countDocuments({ operator: user.id });
    const existing = await count();
    await expect(beginSession(request, before)).rejects.toMatchObject({ code: 'UNAUTHENTICATED' });
    expect(await count()).toBe(existing);
    await beginSession(request, { ...before, passwordHash: 'a new hash' });
    expect(await count()).toBe(existing + 1);
  });
});

test('the pages describe how to build them, are sent for every path once built, and forbid content of other hosts', async () => {
  const browser = createBrowser(started.url);
  expect((await browser.get('/')).body).toContain('npm run build');
  await mkdir(join(folder, 'assets'));
  await writeFile(join(folder, 'assets/app-1a2b.js'), 'run()');
  await writeFile(join(folder, 'index.html'), '<!doctype html>');
  const page = await browser.get('/apps/x?tab=keys');
  expect(page.body).toBe('<!doctype html>');
  expect(page.headers.get('cache-control')).toBe('no-cache');
  expect(page.headers.get('content-security-policy')).toContain("default-src 'self'");
  expect(page.headers.get('content-security-policy')).toContain("frame-ancestors 'none'");
  expect(page.headers.get('x-content-type-options')).toBe('nosniff');
  const asset = await browser.get('/assets/app-1a2b.js');
  expect(asset.headers.get('cache-control')).toContain('immutable');
  expect((await browser.get('/assets/none.js')).status).toBe(404);
  expect((await browser.get('/api/none')).body.code).toBe('NOT_FOUND');
});

test.each([
  // CONSOLE_URL, the request's Host, its Origin, whether it is the console's own
  [undefined, '192.0.2.1:4010', 'http://192.0.2.1:4010', true],
  [undefined, '192.0.2.1:4010', 'http://192.0.2.1:4011', false],
  [undefined, '192.0.2.1:4010', 'https://192.0.2.1:4010', false],
  [undefined, '192.0.2.1:4010', undefined, false],
  ['http://push.example', 'push.example', 'http://push.example', true],
  ['https://push.example', 'push.example', 'https://push.example', true],
  ['https://push.example', 'push.example', 'http://push.example', false],
  ['https://push.example', 'PUSH.example', 'http://push.example', false],
  ['https://push.example', '192.0.2.1:4010', 'http://192.0.2.1:4010', true],
  ['https://push.example', 'push.example', 'null', false],
])('with CONSOLE_URL %p, host %p and origin %p: %p', (url, host, origin, isOwn) => {
  expect(createConsoleAddress(url).isOwnOrigin(origin, host)).toBe(isOwn);
});

test('several processes are one console: sessions, links and re-drives', async () => {
  const { store, startAnother } = started;
  const CONSOLE_URL = 'https://push.example.com';
  const origin = { origin: CONSOLE_URL };
  const urls = [await startAnother({ CONSOLE_URL }), await startAnother({ CONSOLE_URL })] as const;
  /** Returns the browser as it is when its next request goes to another process. */
  const moved = async ({ cookies }: Browser, url: string) => {
    const browser = createBrowser(url);
    for (const [name, value] of cookies) browser.cookies.set(name, value);
    return { browser, session: await browser.get('/api/session') };
  };
  const first = createBrowser(urls[0]);
  await first.post('/api/login', { name: 'Owner', password: PASSWORD }, origin);
  const { browser: second, session } = await moved(first, urls[1]);
  expect(session.body.operator.name).toBe('Owner');
  const grant = { role: 'viewer', accounts: 'all' };
  const { link } = (await second.post('/api/operators/invite', grant, origin)).body;
  const redeem = async (browser: Browser, name: string) => {
    const body = { token: tokenOf(link), name, password: PASSWORD };
    return (await browser.post('/api/setup', body, origin)).body.operator;
  };
  const user = createBrowser(urls[0]);
  const { id } = await redeem(user, 'Vera');
  expect(await redeem(createBrowser(urls[1]), 'Again')).toBeUndefined();
  const readStatuses = async () => [
    (await user.get('/api/session')).status,
    (await moved(user, urls[1])).session.status,
  ];
  expect(await readStatuses()).toEqual([200, 200]);
  await first.request('PUT', `/api/operators/${id}`, { disabled: true }, origin);
  expect(await readStatuses()).toEqual([401, 401]);
  const app = await store.apps.create('app', await store.accounts.create('account', 'pro'));
  const redrive = (browser: Browser) =>
    browser.post(`/api/apps/${app}/redrives`, { filter: {} }, origin);
  const { body } = await redrive(first);
  expect((await second.get(`/api/redrives/${body.id}`)).body).toMatchObject({
    ...{ app, state: 'running', done: 0 },
  });
  expect(await redrive(second)).toMatchObject({ status: 409, body: { code: 'CONFLICT' } });
});
