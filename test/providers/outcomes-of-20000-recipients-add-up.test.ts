import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { TestTenant } from '../support/api/tenants.ts';
import {
  addReceiver,
  reportedOutcomes,
  type WebhookReceiver,
} from '../support/api/webhook-receiver.ts';
import { createDevicePool, type DevicePool } from '../support/faults/device-pool.ts';
import { type SentPush, sendPush } from '../support/faults/pushes.ts';
import { subscribePool } from '../support/faults/subscribe-pool.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import { untilOutcomeCounts } from '../support/providers/outcomes.ts';
import {
  type ProviderDevicePool,
  registerAndroids,
  registerIphones,
  subscribePhones,
} from '../support/providers/provider-device-pool.ts';
import { until } from '../support/until.ts';

const REAL = 20;
const OFFLINE = 18_980;
const IPHONES = 1_000;
const BAD = 5;
const UNREGISTERED = 7;
const SUPERSEDED = 200;
const DELETED_DEVICES = 30;
const ANDROIDS = 200;
const UNREACHABLE_ANDROIDS = 3;
const TIME_TO_LIVE_SECONDS = 30;
/** Recipients of each outcome that are requested one by one. */
const SAMPLE = 60;
const LAST_PAGE_PAUSE_MS = 200;

interface Recipient {
  token: string;
  outcome: string;
  channel: string;
  reason?: string;
  milliseconds?: number;
  detail?: string;
}
interface Page {
  recipients: Recipient[];
  next_page?: string;
}

let fixture: ProviderFixture;
let tenant: TestTenant;
let mongo: TestMongo;
let pool: DevicePool;
let iphones: ProviderDevicePool;
let androids: ProviderDevicePool;
const pushes: SentPush[] = [];
let webhook: WebhookReceiver;
beforeAll(async () => {
  fixture = await openProviderFixture();
  tenant = await fixture.tenant({ fcm: 1 });
  webhook = await addReceiver(tenant);
  mongo = await openMongo(tenant.dev);
  const stack = { home: fixture.stack.home, dev: tenant.dev };
  pool = await createDevicePool(stack, mongo, { registered: REAL + OFFLINE, real: REAL });
  await subscribePool({ stack, mongo, pool }, 'crowd');
  iphones = await registerIphones(tenant, IPHONES);
  await subscribePhones(tenant, 'phones', iphones.tokens);
  androids = await registerAndroids(tenant, ANDROIDS);
  for (const address of androids.addresses.slice(0, UNREACHABLE_ANDROIDS))
    await fixture.sandbox.scriptPermanently('fcm', address, { as: 'UNREGISTERED' });
  for (const address of iphones.addresses.slice(0, BAD))
    await fixture.sandbox.scriptPermanently('apns', address, { as: 'BadDeviceToken' });
  for (const address of iphones.addresses.slice(BAD, BAD + UNREGISTERED))
    await fixture.sandbox.scriptPermanently('apns', address, { as: 'Unregistered' });
});
afterAll(async () => {
  await Promise.all(pool?.devices.map((device) => device.disconnect()) ?? []);
  await mongo?.close();
  await webhook?.stop();
  await fixture?.close();
});

/** Reads all pages, also those that come to be while they are read. */
async function readPages({ id }: SentPush, outcome?: string): Promise<Recipient[]> {
  const recipients: Recipient[] = [];
  const query = new URLSearchParams(outcome === undefined ? {} : { outcome });
  for (;;) {
    const { json } = await tenant.api<Page>('GET', `/pushes/${id}/recipients?${query}`);
    recipients.push(...json.recipients);
    if (json.next_page === undefined) return recipients;
    query.set('page', json.next_page);
    if (json.recipients.length === 0 && outcome === undefined) await sleep(LAST_PAGE_PAUSE_MS);
  }
}

const countOf = async ({ id }: SentPush) =>
  (await tenant.api<{ outcomes: Record<string, number> }>('GET', `/pushes/${id}/outcomes`)).json
    .outcomes;

/** Expects the pages to have every recipient once and to add up to the counts; returns the tokens by outcome. */
async function expectConsistent(push: SentPush): Promise<Map<string, Set<string>>> {
  const recipients = await readPages(push);
  expect(new Set(recipients.map(({ token }) => token)).size).toBe(recipients.length);
  const byOutcome = Map.groupBy(recipients, ({ outcome }) => outcome);
  const counted = [...byOutcome].map(([outcome, some]) => [outcome, some.length]);
  expect(Object.fromEntries(counted)).toEqual(await countOf(push));
  for (const outcome of ['failed', 'superseded', 'gone'])
    expect(await readPages(push, outcome)).toEqual(byOutcome.get(outcome) ?? []);
  return new Map(
    [...byOutcome].map(([outcome, some]) => [outcome, new Set(some.map(({ token }) => token))]),
  );
}

/** Expects recipients of every outcome to be the same one by one as in the pages. */
async function expectSameAlone(push: SentPush): Promise<void> {
  const byOutcome = Map.groupBy(await readPages(push), ({ outcome }) => outcome);
  for (const some of byOutcome.values()) {
    const listed = some.slice(0, SAMPLE);
    const paths = listed.map(({ token }) => `/pushes/${push.id}/recipients/${token}`);
    const responses = await Promise.all(
      paths.map((path) => tenant.api<{ recipient: object }>('GET', path)),
    );
    expect(responses.map(({ json }) => ({ ...json.recipient, attempts: [] }))).toEqual(
      listed.map((recipient) => ({ ...recipient, attempts: [] })),
    );
  }
}

const isOf =
  ({ id }: SentPush) =>
  ({ data }: { data: Record<string, unknown> }) =>
    data.push === id;

/** Waits until the webhook got the push's end, and the end of each recipient as the pages have it. */
async function expectReported(
  push: SentPush,
  ended: Map<string, Set<string>>,
  state: string,
): Promise<void> {
  const expected = new Map(
    [...ended].flatMap(([outcome, tokens]) =>
      [...tokens].map((token): [string, string] => [token, outcome]),
    ),
  );
  const isReported = () =>
    webhook.events('push.finished').some(isOf(push)) &&
    reportedOutcomes(webhook, push.id).size >= expected.size;
  await until(isReported, { timeoutMs: 120_000, everyMs: 500, what: 'all events' });
  const reported = reportedOutcomes(webhook, push.id);
  expect(reported.size).toBe(expected.size);
  // A recipient has one end, however often it is reported.
  for (const [token, outcomes] of reported) expect([...outcomes]).toEqual([expected.get(token)]);
  const [finished] = webhook.events('push.finished').filter(isOf(push));
  expect(finished?.data).toMatchObject({ state, outcomes: await countOf(push) });
  expect([webhook.forged(), webhook.foreign()]).toEqual([0, 0]);
}

test('the pages add up to the counts and match what devices and providers got, until the end', async () => {
  const fields = { collapse_key: 'scores' };
  const push = await sendPush(tenant, ['/topics/crowd', '/topics/phones'], fields);
  // During the fan-out and the delivery: each recipient is in one page.
  const during = await readPages(push);
  expect(during.map(({ token }) => token).sort()).toEqual(
    [...pool.tokens, ...iphones.tokens].sort(),
  );
  const counts = { delivered: REAL, inbox: OFFLINE, sent: IPHONES - BAD - UNREGISTERED };
  const failures = { failed: BAD, gone: UNREGISTERED };
  await untilOutcomeCounts(fixture.store, push, { ...counts, ...failures });
  const settled = await expectConsistent(push);
  expect(settled.get('delivered')).toEqual(new Set(pool.devices.map(({ token }) => token)));
  for (const { arrivals } of pool.devices)
    expect(arrivals.map(({ payload }) => payload)).toEqual([push.payload]);
  const requested = new Set((await fixture.sandbox.received(push.id)).map(({ to }) => to));
  expect(requested).toEqual(new Set(iphones.addresses));
  expect(settled.get('failed')).toEqual(new Set(iphones.tokens.slice(0, BAD)));
  expect(settled.get('gone')).toEqual(new Set(iphones.tokens.slice(BAD, BAD + UNREGISTERED)));

  const offline = pool.tokens.slice(REAL);
  const [replaced, removed] = [
    offline.slice(0, SUPERSEDED),
    offline.slice(SUPERSEDED, SUPERSEDED + DELETED_DEVICES),
  ];
  const newer = await sendPush(tenant, replaced, fields);
  await untilOutcomeCounts(fixture.store, newer, { inbox: SUPERSEDED });
  for (const token of removed) await tenant.api('DELETE', `/devices/${token}`);
  const isSo = async () => (await countOf(push)).gone === UNREGISTERED + DELETED_DEVICES;
  await until(isSo, { what: 'the removed devices' });
  const changed = await expectConsistent(push);
  expect(changed.get('superseded')).toEqual(new Set(replaced));
  expect(changed.get('pending')?.size).toBe(OFFLINE - SUPERSEDED - DELETED_DEVICES);

  await tenant.api('DELETE', `/pushes/${push.id}`);
  await until(async () => (await countOf(push)).pending === undefined, { timeoutMs: 30_000 });
  const ended = await expectConsistent(push);
  expect(ended.get('deleted')).toEqual(changed.get('pending'));
  for (const outcome of ['delivered', 'sent', 'failed', 'gone', 'superseded'])
    expect(ended.get(outcome)).toEqual(changed.get(outcome));
  await expectSameAlone(push);
  await expectReported(push, ended, 'deleted');
  pushes.push(push);
}, 300_000);

test('a push that expires has the outcomes of its fallbacks, and the webhook gets them', async () => {
  const phones = iphones.tokens.slice(BAD + UNREGISTERED);
  const offline = pool.tokens.slice(-ANDROIDS);
  const connected = pool.devices.map(({ token }) => token);
  const fields = { time_to_live: TIME_TO_LIVE_SECONDS };
  const to = [...connected, ...offline, ...androids.tokens, ...phones];
  const push = await sendPush(tenant, to, fields);
  await until(
    async () => {
      const requested = (await fixture.sandbox.received(push.id)).map((one) => one.to);
      return new Set(requested).size === androids.addresses.length + phones.length;
    },
    { timeoutMs: TIME_TO_LIVE_SECONDS * 1_000, everyMs: 500, what: 'the requests to providers' },
  );
  await until(async () => (await countOf(push)).pending === undefined, { timeoutMs: 90_000 });
  const ended = await expectConsistent(push);
  expect(ended).toEqual(
    new Map([
      ['delivered', new Set(connected)],
      ['sent', new Set([...phones, ...androids.tokens.slice(UNREACHABLE_ANDROIDS)])],
      ['expired', new Set([...offline, ...androids.tokens.slice(0, UNREACHABLE_ANDROIDS)])],
    ]),
  );
  await expectSameAlone(push);
  await expectReported(push, ended, 'expired');
  const channels = new Map((await readPages(push)).map(({ token, channel }) => [token, channel]));
  expect(channels.get(androids.tokens.at(-1) ?? '')).toBe('fcm');
  for (const { data } of webhook.events('recipient.sent').filter(isOf(push)))
    expect(data.channel).toBe(channels.get(String(data.token)));
  pushes.push(push);
}, 300_000);

test('pushes that were removed are unknown', async () => {
  expect(pushes).toHaveLength(2);
  // Pending reports would keep them.
  await until(async () => (await fixture.store.outbox.countPending(webhook.id, 1)) === 0);
  const stored = mongo.db.collection<{ _id: string }>('pushes');
  const ids = { _id: { $in: pushes.map(({ id }) => id) } };
  await stored.updateMany(ids, { $set: { purgeAt: new Date() } });
  await until(async () => (await stored.countDocuments(ids)) === 0, { timeoutMs: 30_000 });
  for (const { id } of pushes)
    for (const path of ['outcomes', 'recipients', `recipients/${pool.tokens[0]}`]) {
      const { json } = await tenant.api<{ code: string }>('GET', `/pushes/${id}/${path}`);
      expect(json.code).toBe('INVALID_PUSH_ID');
    }
});
