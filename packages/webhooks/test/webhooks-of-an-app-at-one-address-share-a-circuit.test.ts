import { MAX_OPEN_MS, SEVERAL } from '@carillon/core/circuit';
import { newObjectId } from '@carillon/core/ids';
import { NOT_ALLOWED } from '@carillon/core/public-address';
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import { deliver, type StoreUnderTest, startStore } from '../../store/test/store-under-test.ts';
import {
  type AddressCircuits,
  createAddressCircuits,
  MAX_IN_FLIGHT,
  SHARED_IN_FLIGHT,
} from '../src/address-circuits.ts';
import { type Responder, status } from './receiver.ts';
import {
  addWebhook,
  insertReportedPush,
  report,
  skipDelays,
  startWebhook,
  type WebhookUnderTest,
} from './webhook-under-test.ts';

const CUT: Responder = (_request, response) => response.socket?.destroy();
/** App of a test's webhooks: an app has at most five. */
let appOfAll: string;
/** Longer than any test: a request hangs until the test responds. */
const LONG_MS = 120_000;

let database: StoreUnderTest;
let now: number;
let circuits: AddressCircuits;
const started: WebhookUnderTest[] = [];
beforeAll(async () => {
  database = await startStore();
});
beforeEach(() => {
  appOfAll = newObjectId();
  now = 0;
  circuits = createAddressCircuits(
    () => now,
    () => 1,
  );
});
afterAll(async () => {
  await Promise.all(started.map(({ receiver }) => receiver.stop()));
  await database?.stop();
});

/** Creates webhooks with one receiver, by default of one app, and a push to be reported to each of them. */
async function startAtOneAddress(
  count: number,
  nextApp: (n: number) => string = () => appOfAll,
): Promise<WebhookUnderTest[]> {
  const first = await startWebhook(database.store, nextApp(0));
  started.push(first);
  const all = [first];
  while (all.length < count) all.push(await addWebhook(database.store, nextApp(all.length), first));
  const push = await insertReportedPush(
    database,
    1,
    all.map(({ id }) => id),
  );
  await deliver(database.store, push, {}, { finish: true });
  return all;
}

const reportWith = ({ id }: WebhookUnderTest) =>
  report(database.store, id, { circuits, deadlineMs: LONG_MS });

/** Reports for each webhook, one after the other, with all delays of its own skipped. */
async function reportEach(webhooks: readonly WebhookUnderTest[]) {
  const results = [];
  for (const webhook of webhooks) {
    await skipDelays(database, webhook.id);
    results.push(await reportWith(webhook));
  }
  return results;
}

/** Holds responses back until it is called. */
function holdResponses({ receiver }: WebhookUnderTest): () => void {
  const held: (() => void)[] = [];
  receiver.respondWith((request, response) => held.push(() => status(200)(request, response)));
  return () => {
    receiver.respondWith(status(200));
    for (const respond of held) respond();
  };
}

test('requests of several webhooks without a response open the circuit, and a probe closes it for all', async () => {
  const webhooks = await startAtOneAddress(SEVERAL + 2);
  const [first] = webhooks as [WebhookUnderTest];
  first.receiver.respondWith(CUT);
  const results = await reportEach(webhooks);
  const blocked = webhooks.slice(SEVERAL);
  expect(results.map(({ requests, end }) => [requests, end])).toEqual([
    ...Array.from({ length: SEVERAL }, () => [1, 'failed']),
    ...blocked.map(() => [0, 'waiting']),
  ]);
  // Webhooks without an attempt have not failed: nothing counts towards turning them off.
  for (const { id } of blocked) {
    const webhook = await database.store.webhooks.find(id);
    expect(webhook).toMatchObject({ retryAt: expect.any(Date) });
    expect(webhook).not.toHaveProperty('failures');
  }
  first.receiver.requests.length = 0;
  first.receiver.respondWith(status(200));
  now += MAX_OPEN_MS;
  await reportEach(webhooks.slice(0, SEVERAL));
  const blockedIds = blocked.map(({ id }) => id);
  await database.db
    .collection<{ _id: string }>('webhooks')
    .updateMany({ _id: { $in: blockedIds } }, { $set: { retryAt: new Date(0) } });
  for (const webhook of blocked) await reportWith(webhook);
  expect(first.reported()).toHaveLength(2 * webhooks.length);
  for (const webhook of webhooks) {
    const stored = await database.store.webhooks.find(webhook.id);
    expect(stored).not.toHaveProperty('retryAt');
  }
});

test('the other webhooks wait while one probes', async () => {
  const webhooks = await startAtOneAddress(SEVERAL + 2);
  const [first] = webhooks as [WebhookUnderTest];
  first.receiver.respondWith(CUT);
  await reportEach(webhooks);
  const [probing, waiting] = webhooks.slice(SEVERAL) as [WebhookUnderTest, WebhookUnderTest];
  await Promise.all([probing, waiting].map(({ id }) => skipDelays(database, id)));
  now += MAX_OPEN_MS;
  first.receiver.requests.length = 0;
  const release = holdResponses(first);
  const probe = reportWith(probing);
  await until(() => probing.reported().length > 0);
  expect(await reportWith(waiting)).toMatchObject({ requests: 0, end: 'waiting' });
  release();
  expect(await probe).toMatchObject({ events: 2, end: 'reported' });
  expect(await reportWith(waiting)).toMatchObject({ events: 2, end: 'reported' });
});

test('an error status is a response: its webhook waits, others at the address do not', async () => {
  const webhooks = await startAtOneAddress(SEVERAL + 2);
  webhooks[0]?.receiver.respondWith(status(500));
  const results = await reportEach(webhooks);
  expect(results.map(({ requests, end }) => [requests, end])).toEqual(
    webhooks.map(() => [1, 'failed']),
  );
});

test('one webhook without a response stops no other of its address', async () => {
  const webhooks = await startAtOneAddress(2);
  const [hanging, working] = webhooks as [WebhookUnderTest, WebhookUnderTest];
  hanging.receiver.respondWith(CUT);
  for (let n = 0; n < 2 * SEVERAL; n += 1) await reportEach([hanging]);
  hanging.receiver.respondWith(status(200));
  expect(await reportWith(working)).toMatchObject({ events: 2, end: 'reported' });
});

test('a test event is sent while the circuit is open', async () => {
  const webhooks = await startAtOneAddress(SEVERAL + 1);
  const [first] = webhooks as [WebhookUnderTest];
  first.receiver.respondWith(CUT);
  await reportEach(webhooks);
  first.receiver.requests.length = 0;
  first.receiver.respondWith(status(200));
  const { app = '' } = (await database.store.webhooks.find(first.id)) ?? {};
  expect(await database.store.webhooks.requestTest(app, first.id)).toBe(true);
  await reportWith(first);
  expect(first.receiver.requests[0]?.events.map(({ type }) => type)).toEqual(['test']);
});

test('an app whose webhooks get no response stops no other app at the same address', async () => {
  const apps = [newObjectId(), newObjectId()];
  const webhooks = await startAtOneAddress(SEVERAL + 2, (n) => apps[n > SEVERAL ? 1 : 0] ?? '');
  const [first] = webhooks as [WebhookUnderTest];
  first.receiver.respondWith(CUT);
  const results = await reportEach(webhooks.slice(0, -1));
  expect(results.at(-1)).toMatchObject({ requests: 0, end: 'waiting' });
  first.receiver.respondWith(status(200));
  const [victim] = webhooks.slice(-1) as [WebhookUnderTest];
  expect(await reportWith(victim)).toMatchObject({ requests: 1, events: 2, end: 'reported' });
});

test('apps that keep many requests in flight at an address do not shut out another app there', () => {
  const url = 'https://example.org/a';
  const acquire = (app: string, n: number) => circuits.acquire(url, { app, _id: `${app} ${n}` });
  for (let n = 0; n < SHARED_IN_FLIGHT; n += 1)
    expect(acquire(`app ${n % 4}`, n).kind).toBe('permit');
  expect(acquire('app 0', SHARED_IN_FLIGHT)).toEqual({ kind: 'busy' });
  const permit = acquire('victim', 0);
  expect(permit.kind).toBe('permit');
  expect(acquire('victim', 1)).toEqual({ kind: 'busy' });
  if (permit.kind === 'permit') permit.end({ status: 200 });
  expect(acquire('victim', 1).kind).toBe('permit');
});

test('an address has a bounded number of requests in flight, however many apps have webhooks there', () => {
  const acquire = (n: number) =>
    circuits.acquire('https://example.org/a', { app: `app ${n}`, _id: `webhook ${n}` });
  const permits = Array.from({ length: MAX_IN_FLIGHT }, (_, n) => acquire(n));
  expect(permits.every(({ kind }) => kind === 'permit')).toBe(true);
  expect(acquire(MAX_IN_FLIGHT)).toEqual({ kind: 'busy' });
  for (const permit of permits) if (permit.kind === 'permit') permit.end({ status: 200 });
  expect(acquire(MAX_IN_FLIGHT).kind).toBe('permit');
});

const another = () => ({ app: appOfAll, _id: 'another' });

/** Uses permits of several webhooks for an address, without a response. */
function fail(url: string, webhooks: number, error = 'ECONNREFUSED'): void {
  for (let n = 0; n < webhooks; n += 1) {
    const permit = circuits.acquire(url, { app: appOfAll, _id: `webhook ${n}` });
    if (permit.kind === 'permit') permit.end({ error });
  }
}

test.each([
  ['another port', 'https://example.org:444/a'],
  ['another scheme', 'http://example.org:443/a'],
  ['another host', 'https://example.com/a'],
])('%s is another address, another path is not', (_what, other) => {
  fail('https://example.org/a', SEVERAL);
  expect(circuits.check('https://example.org:443/b?c', another())).toEqual({
    kind: 'open',
    waitMs: expect.any(Number),
  });
  expect(circuits.check(other, another())).toBeUndefined();
});

test('requests that were not sent because of the resolved address are not counted', () => {
  fail('https://example.org/a', SEVERAL, NOT_ALLOWED);
  expect(circuits.check('https://example.org/a', another())).toBeUndefined();
});

test('the number of stored addresses is bounded', () => {
  circuits = createAddressCircuits(
    () => now,
    () => 1,
    2,
  );
  for (const host of ['a', 'b', 'c']) fail(`https://${host}.example`, SEVERAL);
  const states = ['a', 'b', 'c'].map(
    (host) => circuits.check(`https://${host}.example`, another())?.kind,
  );
  expect(states.filter((kind) => kind === 'open')).toHaveLength(2);
});
