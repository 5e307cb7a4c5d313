import { generateKeyPairSync } from 'node:crypto';
import { boxKeyOf } from '@carillon/core/sealed-box';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import {
  type Browser,
  type ConsoleUnderTest,
  inviteBrowser,
  PASSWORD,
  setUpOwner,
  startConsole,
} from './console-under-test.ts';

let started: ConsoleUnderTest;
let owner: Browser;
let account: string;
let app: string;
/** All secrets that were stored or shown once. */
const secrets: string[] = [PASSWORD];

beforeAll(async () => {
  started = await startConsole();
  owner = await setUpOwner(started);
  account = (await owner.post('/api/accounts', { name: '<b>markup</b>' })).body.id;
  const created = await owner.post('/api/apps', { account, name: 'app' });
  app = created.body.id;
  secrets.push(created.body.key);
});
afterAll(() => started.stop());

const audited = async (action: string) =>
  (await owner.get(`/api/audit?action=${action}`)).body.items;
const resultsOf = async (action: string): Promise<string[]> =>
  (await audited(action)).map(({ result }: { result: string }) => result);

describe('apps, keys and credentials', () => {
  test('a key is shown once, listed by its last four characters, and revoked', async () => {
    const { body: key } = await owner.post(`/api/apps/${app}/keys`);
    secrets.push(key.key);
    expect(key.key).toMatch(/^[0-9a-f]{64}$/);
    const { items } = (await owner.get(`/api/apps/${app}/keys`)).body;
    expect(items).toHaveLength(2);
    expect(items[1]).toMatchObject({ id: key.id, lastFour: key.key.slice(-4) });
    expect((await owner.delete(`/api/apps/${app}/keys/${key.id}`)).status).toBe(200);
    expect((await owner.delete(`/api/apps/${app}/keys/${key.id}`)).status).toBe(404);
    expect(await audited('key.create')).toMatchObject([{ account, facts: { app, id: key.id } }]);
    expect(await resultsOf('key.revoke')).toEqual(['NOT_FOUND', 'done']);
  });

  test('a .p8 file is checked and sealed', async () => {
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
    const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
    secrets.push(pem.split('\n')[1] ?? '');
    const set = (content: string) =>
      owner.put(`/api/apps/${app}/credentials/apns`, {
        key: { name: 'AuthKey_ABCDE12345.p8', base64: Buffer.from(content).toString('base64') },
        teamId: 'TEAM123456',
      });
    expect((await set('no key')).body).toMatchObject({ code: 'INVALID_PARAM' });
    expect((await set(pem)).body).toMatchObject({ channel: 'apns', keyId: 'ABCDE12345' });
    expect((await owner.get(`/api/apps/${app}/credentials`)).body.items).toHaveLength(2);
    expect((await owner.delete(`/api/apps/${app}/credentials/apns`)).status).toBe(200);
    expect(await audited('credential.set')).toMatchObject([
      ...[{ result: 'done', facts: { app, channel: 'apns' } }, { result: 'INVALID_PARAM' }],
    ]);
  });

  test('the key pair for browsers warns until it has a contact that Apple accepts', async () => {
    const set = (contact: string) =>
      owner.put(`/api/apps/${app}/credentials/web-push`, { contact });
    const warningOf = async () =>
      (await owner.get(`/api/apps/${app}/credentials`)).body.items[0].warning;
    expect(await warningOf()).toMatch(/^no contact that Apple accepts, .*WEB_PUSH_CONTACT/);
    const refused = await set('mailto:you@localhost');
    expect(refused.body).toMatchObject({ error: expect.stringMatching(/refuse localhost\.$/) });
    expect(await warningOf()).toBeDefined();
    expect((await set('mailto:you@mail.net')).status).toBe(200);
    expect(await warningOf()).toBeUndefined();
  });

  test('settings are changed, and another app’s bundle id is a conflict', async () => {
    const other = (await owner.post('/api/apps', { account, name: 'other' })).body;
    secrets.push(other.key);
    const change = { payloadLimit: 8_192, fcmFallback: 30, bundleIds: ['com.example.app'] };
    expect((await owner.put(`/api/apps/${app}`, change)).body).toMatchObject(change);
    for (const fcmFallback of ['first', 'off']) {
      const use = { fcmFallback, fcmNotification: fcmFallback === 'first' };
      expect((await owner.put(`/api/apps/${app}`, use)).body).toMatchObject(use);
    }
    expect((await owner.put(`/api/apps/${app}`, { fcmFallback: 'last' })).status).toBe(400);
    const taken = await owner.put(`/api/apps/${other.id}`, { bundleIds: ['com.example.app'] });
    expect([taken.status, taken.body.code]).toEqual([409, 'CONFLICT']);
    expect((await owner.put(`/api/apps/${app}`, { bundleIds: ['*'] })).status).toBe(400);
  });

  test('an account is limited and suspended', async () => {
    const change = { suspended: true, requestLimit: 60 };
    const { body } = await owner.put(`/api/accounts/${account}`, change);
    expect(body).toMatchObject({ suspended: true, limit: 60 });
    await owner.put(`/api/accounts/${account}`, { suspended: false, requestLimit: null });
    expect(await audited('account.change')).toMatchObject([
      { facts: { account, suspended: false, requestLimit: 'unlimited' } },
      { facts: { account, suspended: true, requestLimit: 60 } },
    ]);
  });
});

describe('webhooks', () => {
  const SECRET_PATH = 'path-of-a-receiver';
  const events = ['push.finished', 'recipient.failed'];
  let path: string;
  beforeAll(() => {
    path = `/api/apps/${app}/webhooks`;
    secrets.push(SECRET_PATH);
  });
  const add = (url: string) => owner.post(path, { url, events });
  const list = async () => (await owner.get(path)).body.items;

  test('a webhook is added when a delivery worker has run, and its secret is shown once', async () => {
    const url = `https://receiver.example/${SECRET_PATH}`;
    expect((await add(url)).body).toMatchObject({ code: 'UNAVAILABLE' });
    await started.store.webhooks.putBoxKey(boxKeyOf(started.env.CREDENTIAL_KEYS));
    for (const wrong of ['receiver.example', 'ftp://receiver.example', 'https://a:b@c.example'])
      expect((await add(wrong)).body).toMatchObject({ code: 'INVALID_PARAM' });
    const { body } = await add(url);
    secrets.push(body.secret);
    expect(body.secret).toMatch(/^whsec_/);
    expect(await list()).toMatchObject([
      { id: body.id, host: 'receiver.example', events, state: 'on', pending: 0 },
    ]);
    const facts = { app, id: body.id, host: 'receiver.example', events: events.join(', ') };
    expect(await audited('webhook.add')).toMatchObject([
      { result: 'done', account, facts },
      { result: 'UNAVAILABLE' },
    ]);
  });

  test('each change is audited, and refused with a message where it does not apply', async () => {
    const [{ id }] = await list();
    const call = async (action: string, body = {}) =>
      (await owner.post(`${path}/${id}/${action}`, body)).body;
    const edit = async (change: object) =>
      (await owner.request('PATCH', `${path}/${id}`, change)).body;
    for (const wrong of [{}, { url: 'receiver.example' }, { events: [] }, { events: ['nothing'] }])
      expect(await edit(wrong)).toMatchObject({ code: 'INVALID_PARAM' });
    const moved = { url: `https://moved.example/${SECRET_PATH}`, events: ['push.finished'] };
    expect(await edit(moved)).toMatchObject({ id, host: 'moved.example', events: moved.events });
    const { secret } = await call('rotate');
    secrets.push(secret);
    expect(secret).toMatch(/^whsec_/);
    expect(await call('test')).toEqual({});
    expect(await call('replay', { from: 1, to: 2 })).toEqual({ pushes: 0 });
    expect(await call('replay', { from: 2, to: 1 })).toMatchObject({ code: 'INVALID_PARAM' });
    await call('off');
    const error = 'The webhook is off: turn it on first.';
    expect(await call('test')).toMatchObject({ code: 'CONFLICT', error });
    expect(await list()).toMatchObject([{ id, state: 'off', reason: 'operator' }]);
    await call('on');
    expect(await list()).toMatchObject([{ id, state: 'on' }]);
    expect((await owner.delete(`${path}/${id}`)).status).toBe(200);
    expect((await owner.delete(`${path}/${id}`)).status).toBe(404);
    const [edited] = await audited('webhook.edit');
    const facts = { app, id, host: 'moved.example', events: 'push.finished' };
    expect(edited).toMatchObject({ result: 'done', facts });
    for (const action of ['rotate', 'off', 'on'])
      expect([action, await resultsOf(`webhook.${action}`)]).toEqual([action, ['done']]);
    expect(await resultsOf('webhook.test')).toEqual(['CONFLICT', 'done']);
    expect(await resultsOf('webhook.remove')).toEqual(['NOT_FOUND', 'done']);
    const [replay] = await audited('webhook.replay');
    expect(replay.facts).toMatchObject({ id, from: '1970-01-01T00:00:00.001Z' });
    // A webhook is listed when the test searches for secrets.
    secrets.push((await add(`https://receiver.example/${SECRET_PATH}`)).body.secret);
  });

  test.each([
    ['viewer', 403, 403],
    ['operator', 200, 403],
    ['admin', 200, 200],
  ])('a %s may list them; sending gets %d, and a change %d', async (role, sending, changing) => {
    const url = `https://receiver.example/${SECRET_PATH}`;
    const { id } = (await add(url)).body;
    const browser = await inviteBrowser(owner, started.url, { name: `webhook ${role}`, role });
    const post = (action: string) => browser.post(`${path}/${id}/${action}`, { from: 1, to: 2 });
    const { status, body } = await browser.get(path);
    expect(status).toBe(200);
    expect(JSON.stringify(body)).not.toContain(SECRET_PATH);
    const statuses = {
      test: (await post('test')).status,
      replay: (await post('replay')).status,
      edit: (await browser.request('PATCH', `${path}/${id}`, { events })).status,
      rotate: (await post('rotate')).status,
      off: (await post('off')).status,
      on: (await post('on')).status,
      remove: (await browser.delete(`${path}/${id}`)).status,
      add: (await browser.post(path, { url, events })).status,
    };
    const changes = { edit: changing, rotate: changing, off: changing, on: changing };
    expect(statuses).toEqual({
      ...{ test: sending, replay: sending, ...changes, remove: changing, add: changing },
    });
  });
});

describe('the audit log', () => {
  test('says when the deliveries of an app were paused and resumed, and by whom', async () => {
    for (const paused of [true, false]) {
      const { body } = await owner.put(`/api/apps/${app}`, { paused });
      expect(body).toMatchObject({ id: app, paused });
    }
    expect((await owner.get(`/api/apps/${app}`)).body).toMatchObject({ paused: false });
    const facts = (paused: boolean) => ({ app, settings: 'paused', paused });
    expect((await audited('app.change')).slice(0, 2)).toMatchObject([
      { facts: facts(false), result: 'done', account },
      { facts: facts(true), result: 'done', account },
    ]);
  });

  test('names the actor, shows operators of an account only its entries, and is listed in pages', async () => {
    const jo = { name: 'jo', role: 'admin', accounts: [account] };
    const admin = await inviteBrowser(owner, started.url, jo);
    await admin.put(`/api/apps/${app}`, { dataString: true });
    const { items } = (await admin.get('/api/audit')).body;
    expect(items[0]).toMatchObject({
      ...{ actor: { name: 'jo' }, action: 'app.change', account, address: '127.0.0.1' },
    });
    expect(items.every((entry: { account: string }) => entry.account === account)).toBe(true);
    const first = (await owner.get('/api/audit?limit=3')).body;
    const second = (await owner.get(`/api/audit?limit=3&cursor=${first.next}`)).body;
    expect(first.items).toHaveLength(3);
    expect(second.items[0].id < first.items[2].id).toBe(true);
    expect((await owner.get('/api/audit?actor=jo&action=app.change')).body.items).toHaveLength(1);
  });

  test('is kept for 400 days', async () => {
    const indexes = await started.db.collection('audit').indexes();
    const ages = indexes.flatMap(({ expireAfterSeconds: age }) => (age === undefined ? [] : [age]));
    expect(ages).toEqual([400 * 24 * 3_600]);
  });

  test('gets the entry before the action, which does not run without it', async () => {
    const { db } = started;
    await db.command({ collMod: 'audit', validator: { never: true } });
    const before = await db.collection('accounts').countDocuments();
    expect((await owner.post('/api/accounts', { name: 'unrecorded' })).status).toBe(500);
    expect(await db.collection('accounts').countDocuments()).toBe(before);
    await db.command({ collMod: 'audit', validator: {} });
  });
});

test('no key, password or provider secret is in a list, the audit log or a session', async () => {
  const grant = { name: 'program', role: 'viewer', accounts: 'all' };
  secrets.push((await owner.post('/api/operators/tokens', grant)).body.token);
  const paths = [
    ...['/api/session', '/api/accounts', '/api/apps', `/api/apps/${app}`, '/api/operators'],
    '/api/operators/tokens',
    ...[`/api/apps/${app}/keys`, `/api/apps/${app}/credentials`, `/api/apps/${app}/webhooks`],
    '/api/audit?limit=100',
    ...['/api/queues', '/queues/board/api/queues?activeQueue=presence&status=waiting'],
    ...['/queues/board/api/job-schedulers', '/queues/board/api/redis/stats'],
  ];
  const responses = await Promise.all(paths.map((path) => owner.get(path)));
  expect(responses.map(({ status }) => status)).toEqual(paths.map(() => 200));
  const text = JSON.stringify(responses.map(({ body }) => body));
  for (const secret of secrets) expect(text).not.toContain(secret);
  expect(text).not.toMatch(/argon2id|digest|PRIVATE KEY|"secret"/);
  expect(responses.every(({ headers }) => headers.get('content-type')?.includes('json'))).toBe(
    true,
  );
});
