import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type StoreUnderTest, startStore } from '../../../packages/store/test/store-under-test.ts';
import { runCarillon } from './run-carillon.ts';

const CONSOLE_URL = 'https://push.example.com/';

let database: StoreUnderTest;
beforeAll(async () => {
  database = await startStore();
});
afterAll(() => database.stop());

const run = (...args: string[]) => runWith({ CONSOLE_URL }, ...args);

async function runWith(address: Record<string, string>, ...args: string[]) {
  const env = { MONGODB_URI: database.uri, ...address };
  const { code, out, err } = await runCarillon(['--json', 'operator', ...args], { env });
  return { code, json: JSON.parse(out), err };
}

test('a set-up link is printed until there is an operator', async () => {
  const link = /^https:\/\/push\.example\.com\/setup#token=[\w-]{43}$/;
  expect((await run('set-up')).json.link).toMatch(link);
  const { operators } = database.store;
  await operators.create({ name: 'Ann', role: 'owner', accounts: 'all', passwordHash: 'h' });
  expect((await run('set-up')).json).toEqual({});
});

test('without CONSOLE_URL a link has the port of the console on this machine', async () => {
  const { json } = await runWith({ CONSOLE_URL: '', CONSOLE_PORT: '4999' }, 'invite');
  expect(json.link).toMatch(/^http:\/\/127\.0\.0\.1:4999\/setup#token=/);
});

test('an invite has the given role and accounts, which must exist', async () => {
  const account = await database.store.accounts.create('One', 'pro');
  const invited = await run('invite', '--role', 'admin', '--account', account);
  expect(invited.json.link).toMatch(/\/setup#token=[\w-]{43}$/);
  const kept = await database.db.collection('invites').findOne({ kind: 'invite', role: 'admin' });
  expect(kept).toMatchObject({ role: 'admin', accounts: [account] });
  const { code, json } = await run('invite', '--account', 'f'.repeat(24));
  expect([code, json]).toEqual([1, { error: `There is no account ${'f'.repeat(24)}.` }]);
  expect((await run('invite', '--role', 'king')).code).toBe(2);
});

test('operators are listed without their hash, get password links, and are disabled by name', async () => {
  const [ann] = (await run('list')).json;
  expect(ann).toMatchObject({ name: 'Ann', role: 'owner', disabled: false });
  expect(JSON.stringify(ann)).not.toContain('passwordHash');
  expect((await run('password', 'ann')).json.link).toContain('/setup#token=');
  expect((await run('disable', 'ann')).json.error).toContain('last owner');
  const { operators } = database.store;
  await operators.create({ name: 'Bob', role: 'viewer', accounts: [], passwordHash: 'h' });
  expect((await run('disable', 'BOB')).json).toMatchObject({ name: 'Bob', disabled: true });
  expect((await run('enable', 'Bob')).json).toMatchObject({ disabled: false });
  expect((await run('disable', 'nobody')).code).toBe(1);
});

test('open links are listed without their tokens, and revoked by id', async () => {
  const { link } = (await run('invite', '--role', 'operator')).json;
  const links: { id: string; role: string; kind: string }[] = (await run('links')).json;
  const invite = links.find(({ kind, role }) => kind === 'invite' && role === 'operator');
  expect(invite).toMatchObject({ accounts: 'all' });
  expect(links).toContainEqual(expect.objectContaining({ kind: 'reset', operator: 'Ann' }));
  const [, token = ''] = link.split('#token=');
  expect(token).not.toBe('');
  expect(JSON.stringify(links)).not.toContain(token);
  const id = invite?.id ?? '';
  expect(await run('revoke-link', id)).toMatchObject({ code: 0, json: { id } });
  expect((await run('revoke-link', id)).json.error).toContain('has been used');
  expect((await run('links')).json).toEqual(links.filter((one) => one.id !== id));
});

test('a token is shown once, listed without its text, expires after 90 days, and is revoked by id', async () => {
  const account = await database.store.accounts.create('Two', 'pro');
  const made = ['token', 'create', 'deploy', '--role', 'admin', '--account', account];
  const { id, token } = (await run(...made)).json;
  expect(token).toMatch(/^cop_[\w-]{43}$/);
  await run('token', 'create', 'short', '--expires', '1h');
  const tokens: { id: string; expiresAt: number; createdAt: number }[] = (
    await run('token', 'list')
  ).json;
  const listed = tokens.find((one) => one.id === id);
  const short = tokens.find((one) => one.id !== id);
  expect(listed).toMatchObject({ id, name: 'deploy', role: 'admin', accounts: [account] });
  const lifetimeOf = (one?: (typeof tokens)[number]) =>
    one === undefined ? undefined : one.expiresAt - one.createdAt;
  expect(lifetimeOf(listed)).toBe(90 * 86_400_000);
  expect(short).toMatchObject({ role: 'viewer', accounts: 'all' });
  expect(lifetimeOf(short)).toBe(3_600_000);
  expect(JSON.stringify(await readAll('operatorTokens'))).not.toContain(token);
  expect(await run('token', 'revoke', id)).toMatchObject({ code: 0, json: { id } });
  expect((await run('token', 'list')).json).toEqual([short]);
  expect((await run('token', 'revoke', id)).code).toBe(1);
  // Their order is that of the clocks of several processes.
  const audit = await database.store.audit.list({ accounts: 'all', limit: 10 });
  const entry = (action: string, facts: object, result: string) =>
    expect.objectContaining({
      ...{ action: `operator.${action}`, facts: expect.objectContaining(facts) },
      ends: [expect.objectContaining({ result })],
    });
  const revoked = ['done', 'NOT_FOUND'].map((result) => entry('revoke-token', { id }, result));
  const created = ['deploy', 'short'].map((name) => entry('create-token', { name }, 'done'));
  expect(audit).toEqual(expect.arrayContaining([...revoked, ...created]));
  expect(JSON.stringify(audit)).not.toContain(token);
});

test('a token has a name, a role below owner, at most a year, and accounts that exist', async () => {
  const wrong = [
    ...[[''], ['a\u202eb'], ['x'.repeat(65)], ['x', '--role', 'owner'], ['x', '--expires', '367d']],
    ...[
      ['x', '--expires', 'never'],
      ['x', '--expires', '90'],
      ['x', '--expires', '0d'],
    ],
  ];
  for (const args of wrong)
    expect([args, (await run('token', 'create', ...args)).code]).toEqual([args, 2]);
  const { json } = await run('token', 'create', 'x', '--account', 'f'.repeat(24));
  expect(json.error).toBe(`There is no account ${'f'.repeat(24)}.`);
});

const readAll = (collection: string) => database.db.collection(collection).find().toArray();
