import { acceptPush } from '@carillon/accept/accept-push';
import type { Accept } from '@carillon/accept/admit-push';
import { newPushId, pushStartMs } from '@carillon/core/ids';
import { failureCode, OUTCOMES } from '@carillon/core/outcomes';
import { createDisconnect } from '@carillon/presence/disconnect';
import { createPresenceReader } from '@carillon/presence/presence-reader';
import { connectPresence, type PresenceServer } from '@carillon/presence/presence-server';
import { jobSchemas } from '@carillon/queue/jobs';
import { createProducers, type Producers } from '@carillon/queue/producers';
import { createWorker, type QueueWorker } from '@carillon/queue/workers';
import { createBatchDocument } from '@carillon/store/create-batches';
import { createClearDevices } from '@carillon/store/delete-device';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { startRedis } from '../../../packages/presence/test/start-server.ts';
import {
  acknowledge,
  deliver,
  LEASE_MS,
  type StoreUnderTest,
  startStore,
} from '../../../packages/store/test/store-under-test.ts';
import type { TestStore } from '../../../test/support/open-store.ts';
import { until } from '../../../test/support/until.ts';
import { createSemaphore } from '../../delivery-worker/src/deliver/semaphore.ts';
import { redrivePage } from '../../delivery-worker/src/redrive/redrive-page.ts';
import { createAccountOf } from '../src/account-of.ts';
import { deviceRoutes } from '../src/devices/routes.ts';
import { failureRoutes } from '../src/failures/routes.ts';
import { toConsoleError } from '../src/http/errors.ts';
import type { ConsoleRoute, Role, SessionOperator } from '../src/http/route.ts';
import { pushRoutes } from '../src/pushes/routes.ts';

const RETENTION_MS = 3_600_000;
const REJECTED = failureCode('rejected-by-provider');
const OWNER: SessionOperator = { id: 'o', name: 'Olga', role: 'owner', accounts: 'all' };

/** A body as JSON: the fields that tests read by name, of all routes. */
interface RouteBody {
  id: string;
  state: string;
  items: { id: string; kind: string }[];
  next?: string;
  redrivenAs: string[];
  timeline: { what: string; at: number }[];
}

let database: StoreUnderTest;
let store: TestStore;
let redis: Awaited<ReturnType<typeof startRedis>>;
let presence: PresenceServer;
let producers: Producers;
/** Takes the jobs of re-drives, as a delivery-worker does. */
let worker: QueueWorker;
let routes: ConsoleRoute[];
let account: string;
let app: string;

beforeAll(async () => {
  [database, redis] = await Promise.all([startStore(), startRedis()]);
  store = database.store;
  producers = createProducers(redis, () => undefined);
  presence = await connectPresence(redis);
  const presenceReader = createPresenceReader(presence);
  const accept: Accept = (ofApp, request, origin) =>
    acceptPush(store, producers, ofApp, request, origin);
  const onError = () => undefined;
  const largePushes = createSemaphore(1);
  const redriving = { store, accept, producers, onError, isStopping: () => false, largePushes };
  const runRedrive = (page: Parameters<typeof redrivePage>[1]) => redrivePage(redriving, page);
  worker = createWorker({ redis, onError }, 'redrive', jobSchemas.redrive, runRedrive, 1);
  const accountOf = createAccountOf(store);
  const disconnect = createDisconnect(presence, presenceReader);
  const clearDevices = createClearDevices(store, producers, onError);
  routes = [
    ...pushRoutes(store, producers, { accept, accountOf, retentionMs: RETENTION_MS }),
    ...deviceRoutes(store, presenceReader, { disconnect, clearDevices }, accountOf),
    ...failureRoutes(store, producers, accountOf),
  ];
  account = await store.accounts.create('Bakery', 'trial');
  app = await store.apps.create('Bread (iOS) *', account);
});
afterAll(async () => {
  await worker?.stop();
  await producers?.close();
  presence?.close();
  await redis?.stop();
  await database?.stop();
});

/** Returns a function that calls a route as the router does, without session and role. */
const caller =
  (method: ConsoleRoute['method']) =>
  async (path: string, input: object, operator = OWNER): Promise<RouteBody> => {
    const route = routes.find((one) => one.method === method && one.path === path);
    if (route === undefined) throw new Error(`no route ${method} ${path}`);
    const request = { input: route.input.parse(input), bodyText: JSON.stringify(input) };
    const handled = route.handle({ ...request, operator, requestId: 'r' });
    const body = await handled.catch((error: unknown) => {
      throw toConsoleError(error);
    });
    return JSON.parse(JSON.stringify(body ?? null)) as RouteBody;
  };
const [get, post, remove] = [caller('get'), caller('post'), caller('delete')];

async function register(count = 1): Promise<string[]> {
  const registered = await Promise.all(
    Array.from({ length: count }, () => store.devices.register(app, 'android')),
  );
  return registered.map(({ token }) => token).sort();
}

/** Sends a push from the console and delivers it as a worker does. */
async function send(tokens: string[], outcomes?: Record<string, number>): Promise<string> {
  const { id } = await post('/apps/:app/pushes', { app, to: tokens, data: { a: 1 } });
  if (outcomes !== undefined) await deliver(store, { id, tokens, batchIds: [id] }, outcomes);
  return id;
}

test('a push is sent, listed, shown with its time line, sent again and deleted', async () => {
  const tokens = await register(3);
  const [delivered = '', failed = '', sent = ''] = tokens;
  const id = await send(tokens);
  const claimed = await store.batchTable.claim(id, 'reply', LEASE_MS);
  await store.batchTable.settle({
    ...{ id, claim: claimed?.claim ?? '', words: [['400 BadDeviceToken', [1]]] },
    outcomes: Uint8Array.of(OUTCOMES.delivered, REJECTED, OUTCOMES.sent),
    latenciesMs: Uint32Array.of(40, 0, 0),
  });
  const details = await get('/pushes/:push', { push: id });
  expect(details).toMatchObject({
    push: { id, app, state: 'open', devices: 3 },
    ...{ batches: { total: 1, open: 0 }, counts: { delivered: 1, failed: 1, sent: 1 } },
    byChannel: { mqtt: { delivered: 1, failed: 1 }, fcm: { sent: 1 } },
    providerErrors: {
      texts: [{ text: '400 BadDeviceToken', count: 1, isWaiting: false }],
      recipients: [{ token: failed, outcome: 'failed', detail: '400 BadDeviceToken' }],
    },
    redrivenAs: [],
  });
  expect(JSON.stringify(details)).not.toContain('"a"');
  const { timeline } = details;
  expect(timeline.map(({ what }) => what).sort()).toEqual([
    ...['accepted', 'expires', 'first-failure', 'first-receipt'],
    ...['last-batch-settled', 'last-receipt'],
  ]);
  expect(timeline[0]).toEqual({ what: 'accepted', at: pushStartMs(id) });
  expect(await get('/pushes/:push/payload', { push: id })).toMatchObject({ data: '{"a":1}' });
  const status = (token: string) => get('/pushes/:push/recipients/:token', { push: id, token });
  expect(await status(delivered)).toMatchObject({ outcome: 'delivered', milliseconds: 40 });
  expect(await status(sent)).toMatchObject({ outcome: 'sent' });
  await expect(status('nobody')).rejects.toMatchObject({ code: 'NOT_FOUND' });
  const again = await post('/pushes/:push/send-again', { push: id });
  expect(again).toMatchObject({ info: { devices: 3, failed: [] } });
  const { items } = await get('/apps/:app/pushes', { app });
  expect(items.slice(0, 2).map((one) => one.id)).toEqual([again.id, id]);
  await post('/pushes/:push/delete', { push: again.id });
  expect(await get('/apps/:app/pushes', { app, state: 'deleted' })).toMatchObject({
    items: [{ id: again.id }],
  });
});

test('a push to the active subscribers of a topic is sent to active ones again', async () => {
  const [token = ''] = await register();
  await database.store.subscriptions.subscribe(app, { token, platform: 'android' }, ['active']);
  const to = '/topics/active';
  const { id } = await post('/apps/:app/pushes', { app, to, data: {}, active_within: 3_600 });
  const again = await post('/pushes/:push/send-again', { push: id });
  const stored = await database.pushes.find({ _id: { $in: [id, again.id] } }).toArray();
  const audience = { topics: ['active'], activeWithinSeconds: 3_600 };
  expect(stored).toMatchObject([{ audience }, { audience }]);
});

test('fields of providers are stored as they were written, and sent again', async () => {
  const [to = ''] = await register();
  const fields = { priority: 'normal', apns: { payload: { aps: { badge: null } } }, fcm: {} };
  const { id } = await post('/apps/:app/pushes', { app, to, data: {}, ...fields });
  const again = await post('/pushes/:push/send-again', { push: id });
  const texts = { apns: '{"payload":{"aps":{"badge":null}}}', fcm: '{}' };
  for (const push of [id, again.id]) {
    const payload = await get('/pushes/:push/payload', { push });
    expect(payload).toEqual({ data: '{}', options: { priority: 'normal', ...texts } });
  }
  const web_push = { headers: { ttl: 1 } };
  const refused = post('/apps/:app/pushes', { app, to, data: {}, web_push });
  await expect(refused).rejects.toMatchObject({ parameter: 'web_push.headers.ttl' });
});

test('the time line ends with the receipt of the device that connects last', async () => {
  const tokens = await register(2);
  const [, offline = ''] = tokens;
  const id = await send(tokens);
  const claimed = await store.batchTable.claim(id, 'reply', LEASE_MS);
  await store.inbox.enqueue([{ token: offline, push: id, work: id, position: 1, sent: false }]);
  await store.batchTable.settle({
    ...{ id, claim: claimed?.claim ?? '', latenciesMs: Uint32Array.of(40, 0) },
    outcomes: Uint8Array.of(OUTCOMES.delivered, OUTCOMES.inbox),
  });
  const receiptTimes = async () => {
    const { timeline } = await get('/pushes/:push', { push: id });
    return timeline
      .filter(({ what }) => what.endsWith('-receipt'))
      .map(({ what, at }) => [what, at - pushStartMs(id)]);
  };
  expect(await receiptTimes()).toEqual([
    ['first-receipt', 40],
    ['last-receipt', 40],
  ]);
  await acknowledge(database, { id, tokens, batchIds: [id] }, offline);
  const field = 'work.gotAt.0.1';
  const recorded = { _id: id, [field]: { $type: 'date' } };
  expect(await database.pushes.countDocuments(recorded as object)).toBe(1);
  const anHourLater = new Date(pushStartMs(id) + 3_600_000);
  await database.pushes.updateOne({ _id: id }, { $set: { [field]: anHourLater } as object });
  expect(await receiptTimes()).toEqual([
    ['first-receipt', 40],
    ['last-receipt', 3_600_000],
  ]);
  const shown = { outcome: 'delivered', milliseconds: 3_600_000 };
  const recipient = { push: id, token: offline };
  expect(await get('/pushes/:push/recipients/:token', recipient)).toMatchObject(shown);
  const { items } = await get('/devices/:token/pushes', { token: offline });
  expect(items).toEqual([expect.objectContaining({ id, ...shown })]);
});

test('scheduled pushes have a list of their own, and lists are limited to a time', async () => {
  const schedule = Math.floor(Date.now() / 1_000) + 3_600;
  const to = await register();
  const { id } = await post('/apps/:app/pushes', { app, to, data: {}, schedule });
  const { id: now } = await post('/apps/:app/pushes', { app, to, data: {} });
  const ids = async (query: object) =>
    (await get('/apps/:app/pushes', { app, ...query })).items.map((one) => one.id);
  expect(await ids({ state: 'scheduled' })).toEqual([id]);
  expect((await ids({ limit: '1' }))[0]).toBe(now);
  expect(await ids({ from: Date.now() + 60_000 })).toEqual([]);
  expect(await ids({ to: 1 })).toEqual([]);
  expect(await ids({ from: `${Date.now() - 60_000}`, to: `${Date.now()}` })).toContain(now);
});

test('a search for a rare state continues over pages that may be empty', async () => {
  const other = await store.apps.create('Many', account);
  const at = Date.now() - 60_000;
  const fields = {
    ...{ app: other, acceptedAt: new Date(at), expiresAt: new Date(), sendUntil: new Date() },
    ...{ data: '{}', devices: 1, fan: { seq: 0, next: 0, done: true } },
  };
  const pushes = Array.from({ length: 12_500 }, (_, n) => ({
    ...{ ...fields, _id: newPushId(at - n), state: n === 12_400 ? 'deleted' : 'finished' },
  }));
  await database.pushes.insertMany(pushes as Parameters<typeof database.pushes.insertMany>[0]);
  const found: string[] = [];
  const sizes: number[] = [];
  let cursor: string | undefined;
  do {
    const page = await get('/apps/:app/pushes', { app: other, state: 'deleted', cursor });
    found.push(...page.items.map((one) => one.id));
    sizes.push(page.items.length);
    cursor = page.next;
  } while (cursor !== undefined);
  expect(found).toEqual([pushes[12_400]?._id]);
  expect(sizes.length).toBeGreaterThan(1);
  const first = await get('/apps/:app/pushes', { app: other, state: 'finished', limit: '100' });
  expect(first.items).toHaveLength(100);
  expect(first.next).toBe(pushes[99]?._id);
});

test('the rows of a list show who sent a push, its progress, and its title to those who may read payloads', async () => {
  const tokens = await register(2);
  const data = { title: 'Fresh rolls', message: 'Until noon' };
  const { id } = await post('/apps/:app/pushes', { app, to: tokens, data });
  await deliver(store, { id, tokens, batchIds: [id] }, { [tokens[0] ?? '']: REJECTED });
  const again = await post('/pushes/:push/send-again', { push: id }, { ...OWNER, name: 'Otto' });
  const list = async (role: Role) =>
    (await get('/apps/:app/pushes', { app, limit: '2' }, { ...OWNER, role })).items;
  const rows = [
    { id: again.id, by: { operator: 'Otto' }, counts: { pending: 2 } },
    { id, by: { operator: 'Olga' }, counts: { delivered: 1, failed: 1 } },
  ];
  const titled = rows.map((row) => ({ ...row, title: 'Fresh rolls' }));
  expect(await list('operator')).toMatchObject(titled);
  const ofViewer = await list('viewer');
  expect(ofViewer).toMatchObject(rows);
  expect(JSON.stringify(ofViewer)).not.toContain('rolls');
});

test('lists are filtered by topic, device and outcome, of which those of another app match nothing', async () => {
  const [token = '', failed = ''] = await register(2);
  const topic = 'filtered';
  await store.subscriptions.subscribe(app, { token, platform: 'android' }, [topic]);
  const { id: toTopic } = await post('/apps/:app/pushes', {
    app,
    to: `/topics/${topic}`,
    data: {},
  });
  const toDevice = await send([failed], { [failed]: REJECTED });
  const other = await store.apps.create('Foreign', account);
  const ids = async (filter: object, ofApp = app) =>
    (await get('/apps/:app/pushes', { app: ofApp, ...filter })).items.map((one) => one.id);
  expect(await ids({ topic })).toEqual([toTopic]);
  expect(await ids({ token: failed })).toEqual([toDevice]);
  expect(await ids({ token: failed, outcome: 'failed' })).toEqual([toDevice]);
  expect((await ids({ outcome: 'failed' }))[0]).toBe(toDevice);
  for (const filter of [{ topic }, { token: failed }, { outcome: 'failed' }, { token: 'nobody' }])
    expect(await get('/apps/:app/pushes', { app: other, ...filter })).toEqual({ items: [] });
  for (const filter of [{ topic: 'no topic' }, { token: 'a b' }, { outcome: 'lost' }])
    await expect(get('/apps/:app/pushes', { app, ...filter })).rejects.toThrow();
});

test('the recipients of a push are listed by pages, with the way, the outcome and its reason', async () => {
  const tokens = await register(3);
  const [, failed = ''] = tokens;
  const id = await send(tokens, { [failed]: REJECTED });
  const list = (query: object) => get('/pushes/:push/recipients', { push: id, ...query });
  const [first, second, third] = tokens.map((token) => ({ token, channel: 'mqtt' }));
  const page = await list({ limit: '2' });
  expect(page.items).toEqual([
    { ...first, outcome: 'delivered' },
    { ...second, outcome: 'failed', reason: 'rejected-by-provider' },
  ]);
  expect(await list({ cursor: page.next })).toEqual({
    items: [{ ...third, outcome: 'delivered' }],
  });
  expect((await list({ outcome: 'failed' })).items).toMatchObject([{ token: failed }]);
  expect((await list({ outcome: 'expired' })).items).toEqual([]);
  await expect(list({ outcome: 'lost' })).rejects.toThrow();
});

test('invalid bodies are rejected with the errors of the API, and nothing is sent', async () => {
  await expect(post('/apps/:app/pushes', { app, to: 'x', data: 'text' })).rejects.toMatchObject({
    code: 'INVALID_PARAM',
    message: expect.stringContaining('data'),
  });
  await expect(post('/apps/:app/pushes', { app, to: 'nobody', data: {} })).rejects.toMatchObject({
    code: 'INVALID_PARAM',
    message: expect.stringContaining('No devices matched'),
  });
});

test('a device is shown with presence, topics, inbox and its last pushes, and is deleted', async () => {
  const [token = ''] = await register();
  await store.subscriptions.subscribe(app, { token, platform: 'android' }, ['news', 'rolls']);
  const inboxed = await send([token], { [token]: OUTCOMES.inbox });
  const failed = await send([token], { [token]: REJECTED });
  expect(await get('/devices/:token', { token })).toMatchObject({
    ...{ token, app, platform: 'android', way: 'mqtt', presence: { state: 'offline' } },
    ...{ subscriptions: ['news', 'rolls'], inbox: 1 },
  });
  const many = await register(2);
  const large = await send([token, ...many]);
  await database.pushes.updateOne({ _id: large }, { $unset: { work: true, tokenHashes: true } });
  await database.batches.insertOne(
    createBatchDocument({ _id: large, app }, 'mqtt', [token], 0, 'ready', new Date()),
  );
  // They lie behind more newer pushes of the app than any list reads.
  const [other = ''] = await register();
  const newer = await database.pushes.findOne({ _id: await send([other]) });
  if (newer === null) throw new Error('it is gone');
  const copies = Array.from({ length: 1_200 }, () => {
    return { ...newer, _id: newPushId(Date.now()) };
  });
  await database.pushes.insertMany(copies);
  const [first, ...rest] = [
    { id: large, outcome: 'pending' },
    { id: failed, outcome: 'failed', reason: 'rejected-by-provider' },
    { id: inboxed, outcome: 'inbox' },
  ];
  const page = await get('/devices/:token/pushes', { token, limit: '1' });
  expect(page).toMatchObject({ items: [first], next: large });
  const { items } = await get('/devices/:token/pushes', { token, cursor: page.next });
  expect(items).toMatchObject(rest);
  expect(await post('/devices/:token/disconnect', { token })).toEqual({ disconnected: true });
  expect((await get('/apps/:app/devices', { app, limit: '100' })).items).toEqual(
    expect.arrayContaining([expect.objectContaining({ token, platform: 'android', way: 'mqtt' })]),
  );
  expect(await remove('/devices/:token', { token })).toEqual({ deleted: true });
  await expect(get('/devices/:token', { token })).rejects.toMatchObject({ code: 'NOT_FOUND' });
  expect(await store.subscriptions.listTopics(token)).toEqual([]);
});

test('topics and their subscribers are listed by pages', async () => {
  const other = await store.apps.create('Topics', account);
  const tokens = ['t1', 't2', 't3'];
  for (const token of tokens)
    await store.subscriptions.subscribe(other, { token, platform: 'ios' }, ['a', `of-${token}`]);
  const first = await get('/apps/:app/topics', { app: other, limit: '2' });
  expect(first.items).toEqual([
    { name: 'a', subscribers: 3 },
    { name: 'of-t1', subscribers: 1 },
  ]);
  const rest = await get('/apps/:app/topics', { app: other, cursor: first.next });
  expect(rest.items).toHaveLength(2);
  const page = { app: other, topic: 'a', limit: '2' };
  const subscribers = await get('/apps/:app/topics/:topic/subscribers', page);
  expect(subscribers).toEqual({
    items: tokens.slice(0, 2).map((token) => ({ token, platform: 'ios' })),
    next: 't2',
  });
});

test('a push keeps the topics of its request, in their order, whatever subscribers they have', async () => {
  const [token = ''] = await register();
  await store.subscriptions.subscribe(app, { token, platform: 'android' }, ['few']);
  const large = { _id: `${app}:many`, n: { android: 1_001 }, v: 0 };
  await database.db.collection<{ _id: string }>('topics').insertOne(large);
  for (const topics of [['few'], ['none', 'few'], ['none', 'many', 'few']]) {
    const to = [token, ...topics.map((name) => `/topics/${name}`)];
    const { id } = await post('/apps/:app/pushes', { app, to, data: {} });
    expect(await get('/pushes/:push', { push: id })).toMatchObject({ push: { id, topics } });
    const { items } = await get('/apps/:app/pushes', { app, limit: '1' });
    expect(items).toMatchObject([{ id, topics }]);
  }
  const without = await get('/pushes/:push', { push: await send([token]) });
  expect(without).not.toHaveProperty('push.topics');
});

test('failed deliveries are listed, re-driven with progress, and shown as re-driven', async () => {
  const bakery = app;
  app = await store.apps.create('Failures', account);
  const [first = '', second = ''] = await register(2);
  const id = await send([first, second].sort(), { [first]: REJECTED });
  const query = { app, channel: 'mqtt', reason: 'rejected-by-provider', limit: '10' };
  expect(await get('/apps/:app/failures', query)).toMatchObject({
    items: [{ push: id, channel: 'mqtt', failed: 1, redriven: 0 }],
  });
  await expect(post('/apps/:app/redrives', { app })).rejects.toThrow();
  const filter = { reason: 'rejected-by-provider', from: Date.now() - 60_000 };
  const { id: redrive } = await post('/apps/:app/redrives', { app, filter });
  await until(async () => (await get('/redrives/:redrive', { redrive })).state === 'finished');
  expect(await get('/redrives/:redrive', { redrive })).toMatchObject({
    ...{ total: 1, done: 1, recipients: 1, skipped: 0, skippedReasons: {} },
  });
  const { redrivenAs } = await get('/pushes/:push', { push: id });
  expect(redrivenAs).toHaveLength(1);
  expect(await get('/pushes/:push', { push: redrivenAs[0] })).toMatchObject({
    ...{ redriveOf: id, push: { devices: 1, app, by: { operator: OWNER.name } } },
  });
  expect(await get('/apps/:app/failures', { app })).toMatchObject({ items: [{ redriven: 1 }] });
  app = bakery;
});

test('a re-drive is stored without Redis too', async () => {
  const unreachable = createProducers({ url: 'redis://127.0.0.1:1' }, () => undefined);
  const withRedis = routes;
  routes = [...failureRoutes(store, unreachable, createAccountOf(store))];
  const input = { app: await store.apps.create('No Redis', account), filter: {} };
  const { id } = await post('/apps/:app/redrives', input).finally(() => (routes = withRedis));
  expect(await store.redrives.find(id)).toMatchObject({ state: 'running' });
  await unreachable.close();
});

test('the search finds pushes, devices by either token, and apps, in the accounts of the operator', async () => {
  const address = 'f'.repeat(40);
  const { token } = await store.devices.register(app, 'ios', {
    ...{ channel: 'apns', address, environment: 'production', bundle: 'com.example.bread' },
  });
  const id = await send(await register());
  const find = async (q: string, accounts: SessionOperator['accounts'] = 'all') => {
    const { items } = await get('/find', { q }, { ...OWNER, role: 'viewer', accounts });
    return items.map(({ kind, id }) => [kind, id]);
  };
  expect(await find(` ${id} `)).toEqual([['push', id]]);
  expect(await find(token, [account])).toEqual([['device', token]]);
  expect(await find(address)).toEqual([['device', token]]);
  expect(await find(app)).toEqual([['app', app]]);
  expect(await find('(ios) *', [account])).toEqual([['app', app]]);
  for (const q of [id, token, address, app, 'bread'])
    expect(await find(q, ['0'.repeat(24)])).toEqual([]);
});

test('of a device that was replaced the details are shown, and its successor is in lists and searches', async () => {
  const own = await store.apps.create('Again', account);
  const address = 'e'.repeat(40);
  const register = () =>
    store.devices.register(own, 'ios', {
      ...{ channel: 'apns', address, environment: 'production', bundle: 'com.example.bread' },
    });
  const [{ token: former }, { token }] = [await register(), await register()];
  const details = (of: string) => get('/devices/:token', { token: of });
  expect(await details(former)).toMatchObject({ replacedBy: token, provider: { channel: 'apns' } });
  expect(await details(token)).toMatchObject({ replaces: former });
  const { items } = await get('/apps/:app/devices', { app: own });
  expect(items).toMatchObject([{ token }]);
  expect(await get('/find', { q: address })).toMatchObject({ items: [{ id: token }] });
});

test("a re-drive of an app skips another app's pushes", async () => {
  const [token = ''] = await register();
  const id = await send([token], { [token]: REJECTED });
  const other = await store.apps.create('Other', account);
  const { id: redrive } = await post('/apps/:app/redrives', { app: other, pushes: [id] });
  await until(async () => (await get('/redrives/:redrive', { redrive })).state === 'finished');
  expect(await get('/redrives/:redrive', { redrive })).toMatchObject({
    ...{ done: 0, skipped: 1, skippedReasons: { removed: 1 } },
  });
});
