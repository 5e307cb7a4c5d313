import { MAX_OPEN_MS, SEVERAL } from '@carillon/core/circuit';
import { newObjectId } from '@carillon/core/ids';
import { NOT_ALLOWED } from '@carillon/core/public-address';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { startWorkers } from '../../../services/delivery-worker/src/workers.ts';
import { createWebhookTick } from '../../../services/scheduler/src/webhooks.ts';
import { until } from '../../../test/support/until.ts';
import { startRedis } from '../../presence/test/start-server.ts';
import { createProducers, type Producers } from '../../queue/src/producers.ts';
import type { QueueWorker } from '../../queue/src/workers.ts';
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
const HANG: Responder = () => undefined;
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
  await makeDue(all);
  return all;
}

/** Inserts a push, of which each webhook has an event for its recipient and one for its end. */
async function makeDue(webhooks: readonly WebhookUnderTest[]): Promise<string> {
  const ids = webhooks.map(({ id }) => id);
  const push = await insertReportedPush(database, 1, ids);
  await deliver(database.store, push, {}, { finish: true });
  return push.id;
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

describe('a process', () => {
  const DEAD = 20;
  /** More than the webhooks that a process reports to at once. */
  const AT_ONE_ADDRESS = 210;
  const WEBHOOKS_PER_PUSH = 50;
  /** On a busy machine Redis responds late; the next tick compensates for it. */
  const ignore = (): void => undefined;
  let redis: Awaited<ReturnType<typeof startRedis>>;
  let producers: Producers;
  let worker: QueueWorker | undefined;
  beforeAll(async () => {
    redis = await startRedis();
    producers = createProducers({ url: redis.url }, ignore);
  });
  afterAll(async () => {
    // Ends the requests, and with them the jobs.
    await Promise.all(started.splice(0).map(({ receiver }) => receiver.stop()));
    await worker?.stop();
    await producers?.close();
    await redis?.stop();
  });

  async function start(): Promise<WebhookUnderTest> {
    const webhook = await startWebhook(database.store);
    started.push(webhook);
    return webhook;
  }

  /** Starts the worker of the queue as a process does. */
  function startWebhookWorker(): QueueWorker | undefined {
    const own = createAddressCircuits(() => performance.now(), Math.random);
    const unused = () => Promise.reject(new Error('the worker takes no such jobs'));
    const processors = {
      ...{ fanOut: unused, deliver: unused, checkCompletion: unused },
      ...{ recordActivity: unused, recordKeyUses: unused, redrive: unused },
      async reportToWebhook(id: string) {
        await report(database.store, id, { circuits: own, deadlineMs: LONG_MS });
      },
    };
    const settings = { redis: { url: redis.url }, onError: ignore };
    return startWorkers(settings, processors, ['webhook'], 1)[0];
  }

  /** Runs the scheduler's tick until a condition holds. */
  async function tickUntil(condition: () => boolean, what: string): Promise<void> {
    const { store } = database;
    const tick = createWebhookTick(store.knownWebhooks, store, producers);
    const tickAndCheck = async () => {
      await tick();
      return condition();
    };
    await until(tickAndCheck, { timeoutMs: 30_000, everyMs: 200, what });
  }

  test('reports to a receiver despite dead ones, and one that hangs for more webhooks than slots', async () => {
    const dead: WebhookUnderTest[] = [];
    while (dead.length < DEAD) dead.push(await start());
    const slow = [await start()];
    const [first] = slow as [WebhookUnderTest];
    while (slow.length < AT_ONE_ADDRESS)
      slow.push(await addWebhook(database.store, newObjectId(), first));
    for (const { receiver } of [...dead, first]) receiver.respondWith(HANG);
    const victim = await start();
    await database.store.knownWebhooks.refresh();
    worker = startWebhookWorker();
    for (let from = 0; from < slow.length; from += WEBHOOKS_PER_PUSH)
      await makeDue(slow.slice(from, from + WEBHOOKS_PER_PUSH));
    await tickUntil(
      () => first.receiver.requests.length >= MAX_IN_FLIGHT,
      'requests to the slow address',
    );
    // The jobs of the others wait behind those of the slow address.
    await makeDue(dead);
    await tickUntil(
      () => dead.every(({ receiver }) => receiver.requests.length === 1),
      'a request to each dead receiver',
    );
    const push = await makeDue([victim]);
    await tickUntil(() => victim.reported().length >= 2, 'events at the working receiver');
    expect(victim.reported().sort()).toEqual([`${push}.0.1`, `${push}.finished`]);
    expect(first.receiver.requests.length).toBe(MAX_IN_FLIGHT);
  });
});
