import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import {
  type Browser,
  type ConsoleUnderTest,
  setUpOwner,
  startConsole,
} from './console-under-test.ts';

const ADDRESS = 'fcm-registration-token-1';

let started: ConsoleUnderTest;
let owner: Browser;
let account: string;
let app: string;
/** An Android device that also has an address at FCM. */
let token: string;
/** A push that can be sent again. */
let push: string;

beforeAll(async () => {
  started = await startConsole({ PUBLIC_API_URL: 'https://push.example.com/' });
  owner = await setUpOwner(started);
});
afterAll(() => started.stop());
beforeEach(async () => {
  account = (await owner.post('/api/accounts', { name: 'one' })).body.id;
  app = (await owner.post('/api/apps', { account, name: 'app' })).body.id;
  const address = { channel: 'fcm', address: ADDRESS } as const;
  ({ token } = await started.store.devices.register(app, 'android', address));
  push = (await send()).body.id;
});

const send = () => owner.post(`/api/apps/${app}/pushes`, { to: token, data: {} });
const sendAgain = () => owner.post(`/api/pushes/${push}/send-again`);
const sendTest = (device = token, channel = 'fcm') =>
  owner.post(`/api/apps/${app}/credentials/${channel}/test`, { device });

describe.each([
  ['the composer', send],
  ['sending again', sendAgain],
  ['a test push', () => sendTest()],
])('%s', (_name, act) => {
  test('is refused while the account is suspended', async () => {
    await owner.put(`/api/accounts/${account}`, { suspended: true });
    expect(await act()).toMatchObject({ status: 403, body: { code: 'ACCOUNT_SUSPENDED' } });
    await owner.put(`/api/accounts/${account}`, { suspended: false });
    expect((await act()).status).toBe(200);
  });

  test('counts as a request of the account, as those of the API do', async () => {
    await owner.put(`/api/accounts/${account}`, { requestLimit: 2 });
    expect((await act()).status).toBe(200);
    const { status, body, headers } = await act();
    expect([status, body.code]).toEqual([429, 'RATE_LIMIT_EXCEEDED']);
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
    expect(await started.store.pushes.inspect(push)).toBeDefined();
    const pushes = await started.db.collection('pushes').countDocuments({ app: app as never });
    expect(pushes).toBe(2);
  });
});

describe('a test push', () => {
  test('is sent over the channel, to a device found by either of its tokens', async () => {
    const byToken = (await sendTest()).body;
    const byAddress = (await sendTest(ADDRESS)).body;
    expect([byToken.token, byAddress.token]).toEqual([token, token]);
    const inspected = await started.store.pushes.inspect(byToken.id);
    expect(inspected?.work).toMatchObject({ channel: 'fcm', n: 1 });
    const recipient = await owner.get(`/api/pushes/${byToken.id}/recipients/${token}`);
    expect(recipient.body).toMatchObject({ token, outcome: 'pending' });
    const [entry] = (await owner.get('/api/audit?action=credential.test')).body.items;
    expect(entry.facts).toEqual({ app, channel: 'fcm', id: byAddress.id });
  });

  test('needs a device of the app that the channel reaches', async () => {
    expect((await sendTest('f'.repeat(22))).body.error).toContain('no device with this token');
    expect((await sendTest(token, 'apns')).body.error).toContain('no address on this channel');
    const other = (await owner.post('/api/apps', { account, name: 'other' })).body.id;
    const foreign = await owner.post(`/api/apps/${other}/credentials/fcm/test`, { device: token });
    expect(foreign.body.error).toContain('no device with this token');
  });
});

describe('a push of the composer', () => {
  const countPushes = () => started.db.collection('pushes').countDocuments({ app: app as never });
  const sendWith = (key: string, body: object) =>
    owner.post(`/api/apps/${app}/pushes`, body, { 'idempotency-key': key });

  test('is sent once for its idempotency key, and another body with the key is refused', async () => {
    const body = { to: [token, 'f'.repeat(22)], data: { n: 1 } };
    const before = await countPushes();
    const [first, second] = await Promise.all([sendWith('k1', body), sendWith('k1', body)]);
    const answers = [first, second, await sendWith('k1', body)].filter(
      // One that comes while the other is being stored is told to try again.
      ({ status }) => status !== 503,
    );
    expect(answers.length).toBeGreaterThan(1);
    for (const one of answers) expect(one.body).toEqual(answers[0]?.body);
    expect(answers[0]?.body.info).toEqual({ devices: 1, failed: ['f'.repeat(22)] });
    const changed = await sendWith('k1', { ...body, data: { n: 2 } });
    expect([changed.status, changed.body.code]).toEqual([400, 'INVALID_PARAM']);
    expect(await countPushes()).toBe(before + 1);
    expect((await sendWith('k2', body)).body.id).not.toBe(answers[0]?.body.id);
    expect(await countPushes()).toBe(before + 2);
  });

  test('has its devices counted, and what reaches none named, before it is sent', async () => {
    const { store } = started;
    const count = async (...recipients: string[]) =>
      (await owner.post(`/api/apps/${app}/audience`, { recipients })).body;
    const other = await store.devices.register(app, 'ios');
    await store.subscriptions.subscribe(app, { token, platform: 'android' }, ['news', 'sports']);
    const all = { unknown: [], unknownCount: 0 };
    expect(await count(token)).toEqual({ devices: 1, isAtMost: false, ...all });
    expect(await count(token, other.token)).toEqual({ devices: 2, isAtMost: false, ...all });
    expect(await count('/topics/news')).toEqual({ devices: 1, isAtMost: false, ...all });
    const overlapping = { devices: 2, isAtMost: true, ...all };
    expect(await count('/topics/news', '/topics/sports')).toEqual(overlapping);
    expect(await count('/topics/news', token)).toEqual(overlapping);
    const unknown = ['/topics/none', ...Array.from({ length: 30 }, (_, n) => `unknown${n}`)];
    expect(await count(...unknown, token)).toEqual({
      ...{ devices: 1, isAtMost: false },
      ...{ unknown: unknown.slice(0, 20), unknownCount: 31 },
    });
    const wrong = await owner.post(`/api/apps/${app}/audience`, {
      recipients: ['/topics/a b'],
    });
    expect([wrong.status, wrong.body.parameter]).toEqual([400, 'to']);
    const foreign = (await owner.post('/api/apps', { account, name: 'other' })).body.id;
    const elsewhere = await owner.post(`/api/apps/${foreign}/audience`, {
      recipients: [token],
    });
    expect(elsewhere.body).toMatchObject({ devices: 0, unknown: [token] });
  });
});

test('the session contains the address of the API', async () => {
  expect((await owner.get('/api/session')).body.apiUrl).toBe('https://push.example.com');
});
