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
  registerIphones,
  subscribeIphones,
} from '../support/providers/provider-device-pool.ts';
import { until } from '../support/until.ts';

const REAL = 20;
const OFFLINE = 18_980;
const IPHONES = 1_000;
const BAD = 5;
const UNREGISTERED = 7;
const SUPERSEDED = 200;
const DELETED_DEVICES = 30;
const LAST_PAGE_PAUSE_MS = 200;

interface Recipient {
  token: string;
  outcome: string;
  channel: string;
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
let webhook: WebhookReceiver;
beforeAll(async () => {
  fixture = await openProviderFixture();
  tenant = await fixture.tenant();
  webhook = await addReceiver(tenant);
  mongo = await openMongo(tenant.dev);
  const stack = { home: fixture.stack.home, dev: tenant.dev };
  pool = await createDevicePool(stack, mongo, { registered: REAL + OFFLINE, real: REAL });
  await subscribePool({ stack, mongo, pool }, 'crowd');
  iphones = await registerIphones(tenant, IPHONES);
  await subscribeIphones(tenant, 'phones', iphones.tokens);
  for (const address of iphones.addresses.slice(0, BAD))
    await fixture.sandbox.scriptPermanently('apns', address, { as: 'BadDeviceToken' });
  for (const address of iphones.addresses.slice(BAD, BAD + UNREGISTERED))
    await fixture.sandbox.scriptPermanently('apns', address, { as: 'Unregistered' });
}, 180_000);
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

/** Waits until the webhook was told of the push's end, and of the end of each recipient as the pages have it. */
async function expectTold(push: SentPush, ended: Map<string, Set<string>>): Promise<void> {
  const expected = new Map(
    [...ended].flatMap(([outcome, tokens]) =>
      [...tokens].map((token): [string, string] => [token, outcome]),
    ),
  );
  const isTold = () =>
    webhook.events('push.finished').some(({ data }) => data.push === push.id) &&
    reportedOutcomes(webhook, push.id).size >= expected.size;
  await until(isTold, { timeoutMs: 120_000, everyMs: 500, what: 'all events' });
  const told = reportedOutcomes(webhook, push.id);
  expect(told.size).toBe(expected.size);
  // A recipient has one end, however often it is told.
  for (const [token, outcomes] of told) expect([...outcomes]).toEqual([expected.get(token)]);
  const [finished] = webhook.events('push.finished').filter(({ data }) => data.push === push.id);
  expect(finished?.data).toMatchObject({ state: 'deleted', outcomes: await countOf(push) });
  expect([webhook.forged(), webhook.foreign()]).toEqual([0, 0]);
}

test('the pages add up to the counts and are what devices and providers saw, until the end', async () => {
  const fields = { collapse_key: 'scores' };
  const push = await sendPush(tenant, ['/topics/crowd', '/topics/phones'], fields);
  // While it is fanned out and worked: each recipient is in one page.
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
  await expectTold(push, ended);
}, 300_000);
