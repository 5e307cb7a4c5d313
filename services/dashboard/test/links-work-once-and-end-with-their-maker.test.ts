import { randomBytes } from 'node:crypto';
import { createSetupLink, inviteOperator } from '@carillon/admin/operators';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  type Browser,
  type ConsoleUnderTest,
  createBrowser,
  createProgram,
  inviteBrowser,
  PASSWORD,
  setUpOwner,
  startConsole,
  tokenOf,
} from './console-under-test.ts';

const NEXT = 'seven green boats at sea';
const COMMON = 'Password1234!';
const REFUSED = { status: 400, body: { code: 'INVALID_PARAM' } };
const DISABLED = { disabled: true };
const VIEWER = { role: 'viewer', accounts: 'all' };

let started: ConsoleUnderTest;
let owner: Browser;
let count = 0;
beforeAll(async () => {
  started = await startConsole();
});
afterAll(() => started.stop());

/** Returns an owner of its own, who may lose its access. */
function newOwner(): Promise<Browser & { id: string }> {
  count += 1;
  return inviteBrowser(owner, started.url, { name: `Maker ${count}`, role: 'owner' });
}

const newInvite = async (browser: Browser, grant: object = VIEWER): Promise<string> =>
  tokenOf((await browser.post('/api/operators/invite', grant)).body.link);
const newReset = async (browser: Browser, id: string): Promise<string> =>
  tokenOf((await browser.post(`/api/operators/${id}/password-link`)).body.link);

/** Creates an operator token, and returns the status that the admin API responds to it with. */
async function newToken(browser: Browser): Promise<() => Promise<number>> {
  const grant = { name: 'program', role: 'viewer', accounts: 'all' };
  const { token } = (await browser.post('/api/operators/tokens', grant)).body;
  const program = createProgram(started.url, token);
  const request = async () => (await program.get('/api/accounts')).status;
  expect(await request()).toBe(200);
  return request;
}

const setUp = (token: string, password: string, name?: string) =>
  createBrowser(started.url).post('/api/setup', { token, name, password });

/** Redeems a link under a new name. */
async function redeem(token: string): Promise<{ status: number; name: string }> {
  count += 1;
  const name = `Reader ${count}`;
  return { status: (await setUp(token, NEXT, name)).status, name };
}

const statusOf = async (token: string): Promise<number> => (await redeem(token)).status;
const isValid = async (token: string): Promise<boolean> =>
  (await createBrowser(started.url).get('/api/setup', { 'x-setup-token': token })).body.valid;
const listLinks = async () => (await owner.get('/api/operators/links')).body.items;
const exists = async (name: string): Promise<boolean> =>
  (await started.store.operators.findByName(name)) !== undefined;

test('one of several set-up links at several processes creates the first operator', async () => {
  const { store, url, startAnother } = started;
  const urls = [url, await startAnother()];
  const tokens = [
    tokenOf(await createSetupLink(store, url)),
    tokenOf(await createSetupLink(store, url)),
  ];
  expect((await createBrowser(url).get('/api/login')).body.setupNeeded).toBe(true);
  const shown = await createBrowser(url).get('/api/setup', { 'x-setup-token': tokens[0] ?? '' });
  expect(shown.body).toEqual({ valid: true, kind: 'setup', role: 'owner' });
  const redemptions = tokens.flatMap((token, n) =>
    urls.map((at, m) => {
      const body = { token, name: `first${n}${m}`, password: PASSWORD };
      return createBrowser(at).post('/api/setup', body);
    }),
  );
  const created = (await Promise.all(redemptions)).filter(({ status }) => status === 200);
  expect(created).toHaveLength(1);
  expect(created[0]?.body.operator).toMatchObject({ role: 'owner', accounts: 'all' });
  expect(await createSetupLink(store, url)).toBeUndefined();
  expect((await createBrowser(url).get('/api/login')).body.setupNeeded).toBe(false);
  await started.db.collection('operators').deleteMany({});
});

test('a common or short password is refused for each kind of link and for a change, and the link still works', async () => {
  const { store, url } = started;
  const first = tokenOf(await createSetupLink(store, url));
  expect(await setUp(first, COMMON, 'Olga')).toMatchObject(REFUSED);
  expect(await setUp(first, 'Olga.Petrowa.1', 'Olga Petrowa')).toMatchObject(REFUSED);
  owner = await setUpOwner(started);
  const invite = await newInvite(owner);
  for (const password of [COMMON, 'p'.repeat(11)])
    expect(await setUp(invite, password, 'Vera')).toMatchObject(REFUSED);
  expect(await statusOf(invite)).toBe(200);
  const user = await inviteBrowser(owner, url, { name: 'Benedikt', role: 'viewer' });
  expect(await setUp(await newReset(owner, user.id), 'Benedikt1234')).toMatchObject(REFUSED);
  const change = (next: string) => user.post('/api/password', { current: PASSWORD, next });
  for (const password of ['benedikt!!!!', 'q7#Zk2!mV9x'])
    expect(await change(password)).toMatchObject(REFUSED);
  expect((await change('q7#Zk2!mV9x$')).status).toBe(200);
});

describe('links', () => {
  test('an invite works once, and not after an hour', async () => {
    const token = await newInvite(owner);
    expect((await setUp(token, NEXT, 'owner')).status).toBe(409);
    expect((await setUp(token, NEXT, 'ann')).body.operator).toMatchObject({
      ...{ name: 'ann', role: 'viewer' },
    });
    expect(await statusOf(token)).toBe(404);
    const late = await newInvite(owner);
    const expired = { $set: { expiresAt: new Date(Date.now() - 1) } };
    await started.db.collection('invites').updateMany({}, expired);
    expect(await statusOf(late)).toBe(404);
  });

  test('a link for a new password ends the sessions, and the old password', async () => {
    const user = await newOwner();
    const { name } = (await user.get('/api/session')).body.operator;
    const response = await setUp(await newReset(owner, user.id), NEXT);
    expect(response.body.operator.name).toBe(name);
    expect((await user.get('/api/session')).status).toBe(401);
    const logIn = async (password: string) =>
      (await createBrowser(started.url).post('/api/login', { name, password })).status;
    expect([await logIn(PASSWORD), await logIn(NEXT)]).toEqual([401, 200]);
  });

  const endings: [string, (id: string) => Promise<unknown>][] = [
    ['is disabled', (id) => owner.put(`/api/operators/${id}`, { disabled: true })],
    ['is removed', (id) => owner.delete(`/api/operators/${id}`)],
    ['is an admin from then on', (id) => owner.put(`/api/operators/${id}`, { role: 'admin' })],
    ['sees no accounts any more', (id) => owner.put(`/api/operators/${id}`, { accounts: [] })],
  ];
  test.each(endings)(
    'and tokens end when their maker %s, for good, and those of others work',
    async (_, end) => {
      const maker = await newOwner();
      const invite = { name: `R${maker.id}`, role: 'viewer' };
      const { id } = await inviteBrowser(owner, started.url, invite);
      const links = [await newInvite(maker), await newInvite(maker), await newReset(maker, id)];
      const others = [await newInvite(owner), await newReset(owner, id)];
      const requests = [await newToken(maker), await newToken(owner)];
      await end(maker.id);
      const useTokens = () => Promise.all(requests.map((request) => request()));
      expect(await useTokens()).toEqual([401, 200]);
      for (const link of links)
        expect([await isValid(link), await statusOf(link)]).toEqual([false, 404]);
      const again = { disabled: false, role: 'owner', accounts: 'all' };
      await owner.put(`/api/operators/${maker.id}`, again);
      for (const link of links) expect(await statusOf(link)).toBe(404);
      expect(await useTokens()).toEqual([401, 200]);
      for (const link of others)
        expect([await isValid(link), await statusOf(link)]).toEqual([true, 200]);
    },
  );

  test('that a process stores while their maker is disabled do not work; those of the command line do', async () => {
    const { store, url } = started;
    const { id: by } = await newOwner();
    const grant = { role: 'viewer', accounts: 'all' } as const;
    await owner.put(`/api/operators/${by}`, { disabled: true });
    const late = await inviteOperator(store, url, { ...grant, by });
    expect(await statusOf(tokenOf(late.link))).toBe(404);
    expect((await listLinks()).filter(({ id }: { id: string }) => id === late.id)).toEqual([]);
    expect(await statusOf(tokenOf((await inviteOperator(store, url, grant)).link))).toBe(200);
  });

  test('still work when their maker has kept its access, and open ones for its own password too', async () => {
    const maker = await newOwner();
    const invite = await newInvite(maker);
    const reset = await newReset(owner, maker.id);
    await owner.put(`/api/operators/${maker.id}`, { role: 'owner', disabled: false });
    expect(await statusOf(invite)).toBe(200);
    await owner.put(`/api/operators/${maker.id}`, { role: 'viewer' });
    expect(await statusOf(reset)).toBe(200);
  });
});

describe('a new password', () => {
  const changes: [string, (user: Browser & { id: string }) => Promise<unknown>][] = [
    ['by its operator', (user) => user.post('/api/password', { current: PASSWORD, next: NEXT })],
    ['by a link', async (user) => expect(await statusOf(await newReset(owner, user.id))).toBe(200)],
  ];
  test.each(changes)(
    '%s ends the links and tokens of its operator and no others',
    async (_, change) => {
      const user = await newOwner();
      const links = [await newInvite(user), await newReset(owner, user.id)];
      const others = [await newInvite(owner), await newReset(owner, (await newOwner()).id)];
      const requests = [await newToken(user), await newToken(owner)];
      await change(user);
      expect(await Promise.all(requests.map((request) => request()))).toEqual([401, 200]);
      for (const link of links) expect(await statusOf(link)).toBe(404);
      for (const link of others) expect(await statusOf(link)).toBe(200);
    },
  );

  test('is set by one of two links that are used at once', async () => {
    const { url } = started;
    for (let n = 0; n < 5; n += 1) {
      const { id } = await newOwner();
      const name = (await started.store.operators.find(id))?.name;
      const passwords = ['the first of two links', 'the other of two links'];
      const tokens = [await newReset(owner, id), await newReset(owner, id)];
      const uses = tokens.map((token, at) => setUp(token, passwords[at] ?? ''));
      const statuses = (await Promise.all(uses)).map(({ status }) => status);
      expect(statuses.toSorted()).toEqual([200, 404]);
      const password = passwords[statuses.indexOf(200)];
      expect((await createBrowser(url).post('/api/login', { name, password })).status).toBe(200);
    }
  });
});

describe('open links', () => {
  test('are listed without their tokens, revoked by an owner, and named in the audit log', async () => {
    await started.db.collection('invites').deleteMany({});
    const user = await newOwner();
    const kept = await newInvite(user);
    const [first] = await listLinks();
    const invited = await owner.post('/api/operators/invite', { role: 'admin', accounts: 'all' });
    const token = await newReset(owner, user.id);
    const links = await listLinks();
    const name = (await user.get('/api/session')).body.operator.name;
    const reset = links.find(({ kind }: { kind: string }) => kind === 'reset');
    expect(reset).toMatchObject({ role: 'owner', operator: name, by: 'Owner' });
    expect(links).toContainEqual(expect.objectContaining({ ...first, ...VIEWER, by: name }));
    const { id } = invited.body;
    expect(links).toContainEqual(expect.objectContaining({ id, role: 'admin', by: 'Owner' }));
    expect(links).toHaveLength(3);
    for (const each of [kept, token, tokenOf(invited.body.link)])
      expect(JSON.stringify(links)).not.toContain(each);
    const page = (await owner.get('/api/operators/links?limit=1')).body;
    expect(page).toEqual({ items: links.slice(0, 1), next: links[0].id });
    const revoke = (link: string) => owner.delete(`/api/operators/links/${link}`);
    expect((await revoke(id)).status).toBe(200);
    expect((await revoke(id)).status).toBe(404);
    expect(await statusOf(tokenOf(invited.body.link))).toBe(404);
    expect((await revoke(reset.id)).status).toBe(200);
    expect(await statusOf(token)).toBe(404);
    expect(await statusOf(kept)).toBe(200);
    expect((await revoke(first.id)).status).toBe(404);
    expect(await listLinks()).toEqual([]);
    const { items } = (await owner.get('/api/audit?action=operator.revoke-link')).body;
    expect(items).toMatchObject([
      { result: 'NOT_FOUND', facts: { id: first.id } },
      { result: 'done', facts: { id: reset.id } },
      { result: 'NOT_FOUND', facts: { id } },
      { result: 'done', facts: { id } },
    ]);
    const [created] = (await owner.get('/api/audit?action=operator.create')).body.items;
    expect(created.facts.link).toBe(first.id);
  });

  test('that are used and revoked at the same time are one of both', async () => {
    const { invites } = started.store;
    for (let n = 0; n < 20; n += 1) {
      const digest = randomBytes(32);
      const id = await invites.create(digest, { kind: 'invite', role: 'viewer', accounts: 'all' });
      const calls = [() => invites.redeem(digest), () => invites.revoke(id)];
      if (n % 2 === 1) calls.reverse();
      const results = await Promise.all(calls.map((call) => call()));
      expect(results.filter(Boolean)).toHaveLength(1);
    }
    const { body } = await owner.post('/api/operators/invite', VIEWER);
    // The process hashes the password before it redeems the link.
    const used = redeem(tokenOf(body.link));
    const revoked = await owner.delete(`/api/operators/links/${body.id}`);
    const { status, name } = await used;
    expect([status, revoked.status].toSorted()).toEqual([200, 404]);
    expect(await exists(name)).toBe(status === 200);
  });

  test('create no operator after their maker is disabled, also when they are used at the same time', async () => {
    for (let n = 0; n < 3; n += 1) {
      const maker = await newOwner();
      const [token, second] = [await newInvite(maker), await newInvite(maker)];
      const used = redeem(token);
      await owner.put(`/api/operators/${maker.id}`, { disabled: true });
      const { status, name } = await used;
      expect([200, 404]).toContain(status);
      expect(await exists(name)).toBe(status === 200);
      expect(await statusOf(second)).toBe(404);
    }
  });

  test.each([
    ['revoked', (_: string, link: string) => owner.delete(`/api/operators/links/${link}`), 404],
    ['ended with their maker', (id: string) => owner.put(`/api/operators/${id}`, DISABLED), 200],
  ])(
    'that are %s once one is used, before its operator is created: the response says whether it was',
    async (_, end, expected) => {
      const maker = await newOwner();
      const { link, id } = (await maker.post('/api/operators/invite', VIEWER)).body;
      const { invites } = started.store;
      const original = invites.redeem;
      const endings: number[] = [];
      invites.redeem = async (digest) => {
        invites.redeem = original;
        const redeemed = await original(digest);
        endings.push((await end(maker.id, id)).status);
        return redeemed;
      };
      const { status, name } = await redeem(tokenOf(link));
      expect([endings, await exists(name)]).toEqual([[expected], status === 200]);
      expect(await statusOf(tokenOf(link))).toBe(404);
    },
  );

  test('stay revoked when the use of one fails, whose name another operator has', async () => {
    const { invites } = started.store;
    const digest = Buffer.alloc(32, 9);
    const id = await invites.create(digest, { kind: 'invite', role: 'viewer', accounts: 'all' });
    expect(await invites.redeem(digest)).toBeDefined();
    expect(await invites.revoke(id)).toBe(false);
    await invites.release(digest);
    expect(await invites.find(digest)).toBeUndefined();
    expect(await invites.redeem(digest)).toBeUndefined();
  });
});
