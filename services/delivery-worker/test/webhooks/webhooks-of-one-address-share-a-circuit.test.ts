import { newObjectId } from '@carillon/core/ids';
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import {
  deliver,
  type StoreUnderTest,
  startStore,
} from '../../../../packages/store/test/store-under-test.ts';
import { until } from '../../../../test/support/until.ts';
import { MAX_OPEN_MS, SEVERAL } from '../../src/deliver/circuit.ts';
import {
  type AddressCircuits,
  createAddressCircuits,
  MAX_IN_FLIGHT,
} from '../../src/webhooks/address-circuits.ts';
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

/** Creates webhooks of as many apps with one receiver, and a push to be reported to each of them. */
async function startAtOneAddress(count: number): Promise<WebhookUnderTest[]> {
  const first = await startWebhook(database.store);
  started.push(first);
  const all = [first];
  while (all.length < count) all.push(await addWebhook(database.store, newObjectId(), first));
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

test('requests of any app without a response open the circuit, and a probe closes it for all', async () => {
  const webhooks = await startAtOneAddress(SEVERAL + 3);
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
  for (const webhook of webhooks) {
    expect(webhook.reported()).toHaveLength(2);
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

test('an address has a few requests in flight, however many webhooks it has', async () => {
  const webhooks = await startAtOneAddress(MAX_IN_FLIGHT + 4);
  const [first] = webhooks as [WebhookUnderTest];
  const release = holdResponses(first);
  const busy = webhooks.slice(0, MAX_IN_FLIGHT).map(reportWith);
  await until(() => first.receiver.requests.length === MAX_IN_FLIGHT);
  for (const webhook of webhooks.slice(MAX_IN_FLIGHT))
    expect(await reportWith(webhook)).toMatchObject({ requests: 0, end: 'waiting' });
  release();
  await Promise.all(busy);
  await Promise.all(webhooks.slice(MAX_IN_FLIGHT).map(reportWith));
  for (const webhook of webhooks) expect(webhook.reported()).toHaveLength(2);
});

/** Uses permits of several webhooks for an address, without a response. */
function fail(url: string, webhooks: number, error = 'ECONNREFUSED'): void {
  for (let n = 0; n < webhooks; n += 1) {
    const permit = circuits.acquire(url, `webhook ${n}`);
    if (permit.kind === 'permit') permit.end({ error });
  }
}

test.each([
  ['another port', 'https://example.org:444/a'],
  ['another scheme', 'http://example.org:443/a'],
  ['another host', 'https://example.com/a'],
])('%s is another address, another path is not', (_what, other) => {
  fail('https://example.org/a', SEVERAL);
  expect(circuits.check('https://example.org:443/b?c', 'another')).toEqual({
    kind: 'open',
    waitMs: expect.any(Number),
  });
  expect(circuits.check(other, 'another')).toBeUndefined();
});

test('requests that were not sent because of the resolved address are not counted', () => {
  fail('https://example.org/a', SEVERAL, 'EPRIVATE');
  fail('https://example.org/a', SEVERAL, 'address not allowed');
  expect(circuits.check('https://example.org/a', 'another')).toBeUndefined();
});

test('the number of stored addresses is bounded', () => {
  circuits = createAddressCircuits(
    () => now,
    () => 1,
    2,
  );
  for (const host of ['a', 'b', 'c']) fail(`https://${host}.example`, SEVERAL);
  const states = ['a', 'b', 'c'].map(
    (host) => circuits.check(`https://${host}.example`, 'another')?.kind,
  );
  expect(states.filter((kind) => kind === 'open')).toHaveLength(2);
});
