import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createPresenceKeys, encodePresence } from '../../packages/presence/src/keys.ts';
import { METRICS, type Metric } from '../../packages/runtime/src/metric-list.ts';
import type { TestTenant } from '../support/api/tenants.ts';
import { getOutcomes, getPushStatus, type Sent, send } from '../support/end-to-end/pushes.ts';
import { createFleet, type Fleet } from '../support/guarantees/devices.ts';
import { type Scrape, scrapeAll, sumBy } from '../support/metrics/scrape.ts';
import { sumFigures } from '../support/metrics/sum-figures.ts';
import {
  registerAndroid,
  registerAndroidByFcm,
  registerIphone,
  registerSimulatedBrowser,
} from '../support/providers/devices.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import { untilOutcomeCounts } from '../support/providers/outcomes.ts';
import { registerIphones } from '../support/providers/provider-device-pool.ts';
import { openRedis } from '../support/redis.ts';
import { registerDevice } from '../support/register-device.ts';
import { until } from '../support/until.ts';

/** More than a batch. */
const IPHONES = 1_200;
/** Characters of all label values, of which names of tenants may have others. */
const LABEL_VALUE = /^[\w .:/+-]{1,64}$/;
/** A batch of which one recipient waits. */
const BATCH = 60;
const WAIT = { as: 'TooManyRequests', headers: { 'retry-after': '3' } };
/** The one metric whose label is an id: that of each of the ten apps with the largest backlog. */
const OF_APPS = 'carillon_app_pending_batches';
const APP_ID = /^[0-9a-f]{24}$/;
const HOSTILE = `hostile"}\\ ${randomUUID()}`;

let fixture: ProviderFixture;
let tenant: TestTenant;
let fleet: Fleet;
/** Texts of tenants and clients that no label may have. */
const secrets: string[] = [];
const pushes: Sent[] = [];
beforeAll(async () => {
  fixture = await openProviderFixture({ deliveryWorkers: 2 });
  tenant = await fixture.tenant({ fcm: 0 });
  fleet = createFleet(() => tenant.dev);
  secrets.push(tenant.app, tenant.apiKey, tenant.keyId, tenant.account);
});
afterAll(async () => {
  await fleet?.disconnectAll();
  await fixture?.close();
});

async function push(to: string | readonly string[], fields?: Record<string, unknown>) {
  const sent = await send(tenant, to, fields);
  pushes.push(sent);
  secrets.push(sent.id, ...[to].flat());
  return sent;
}

const untilCounts = (sent: Sent, counts: Record<string, number>) =>
  untilOutcomeCounts(fixture.store, sent, counts);

async function sendOverProviders(): Promise<void> {
  const { sandbox } = fixture;
  const iphones = await registerIphones(tenant, IPHONES);
  const [good, bad] = [await registerIphone(tenant.dev), await registerIphone(tenant.dev)];
  const phone = await registerAndroidByFcm(tenant.dev);
  const browser = await registerSimulatedBrowser(tenant.dev, sandbox);
  const goneBrowser = await registerSimulatedBrowser(tenant.dev, sandbox);
  await sandbox.scriptPermanently('apns', bad.address, { as: 'BadDeviceToken' });
  await sandbox.scriptPermanently('web-push', goneBrowser.address, { status: 410 });
  const tokens = [good, bad, phone, browser, goneBrowser].map(({ token }) => token);
  await untilCounts(await push(tokens), { sent: 3, failed: 1, gone: 1 });
  await untilCounts(await push(iphones.tokens), { sent: IPHONES });
}

async function sendToConnectedDevices(): Promise<void> {
  const devices = await fleet.createMany(2, 'online');
  await untilCounts(await push(devices.map(({ token }) => token)), { delivered: 2 });
}

/** Recipients that wait in an inbox, and each end that they can have. */
async function sendToInboxes(): Promise<void> {
  const [waiting, replaced] = await fleet.createMany(2, 'offline');
  if (waiting === undefined || replaced === undefined) throw new Error('no devices');
  const fields = { collapse_key: 'news' };
  const older = await push(waiting.token, fields);
  await untilCounts(older, { inbox: 1 });
  const newer = await push(waiting.token, fields);
  const plain = await push(waiting.token);
  for (const sent of [newer, plain]) await untilCounts(sent, { inbox: 1 });
  await waiting.connect();
  await waiting.waitFor(2);
  for (const sent of [newer, plain]) await untilCounts(sent, { delivered: 1 });
  const unread = await push(replaced.token);
  await untilCounts(unread, { inbox: 1 });
  expect((await tenant.api('DELETE', `/pushes/${unread.id}`)).status).toBe(200);
  await untilCounts(unread, { deleted: 1 });
  await untilCounts(older, { superseded: 1 });
}

/** A device that registers again is another one, and FCM gets the push in the inbox of the first; a deleted one is gone. */
async function replaceAndDelete(): Promise<void> {
  const { dev, api } = tenant;
  const before = await registerDevice(dev, 'android');
  const { token: deleted } = await fleet.offline();
  const lost = await push([before.token, deleted]);
  await untilCounts(lost, { inbox: 2 });
  const fcmToken = randomUUID();
  expect((await api('POST', '/devices/token', { ...before, fcmToken })).status).toBe(200);
  const again = { appId: tenant.app, platform: 'android', fcmToken };
  expect((await api('POST', '/register', again)).status).toBe(200);
  expect((await api('DELETE', `/devices/${deleted}`)).status).toBe(200);
  await untilCounts(lost, { sent: 1, gone: 1 });
}

/** FCM reaches one of the devices, and the other does not connect. */
async function expire(): Promise<void> {
  const android = await registerAndroid(tenant.dev);
  const { token } = await fleet.offline();
  const sent = await push([android.token, token], { time_to_live: 5 });
  await untilCounts(sent, { sent: 1, expired: 1 });
}

/** Adds up the outcomes of all pushes as the command line shows them. */
async function sumOutcomes(): Promise<Record<string, number>> {
  const sums: Record<string, number> = {};
  for (const { id } of pushes)
    for (const [outcome, n] of Object.entries(await getOutcomes(fixture.stack, id)))
      sums[outcome] = (sums[outcome] ?? 0) + n;
  return sums;
}

function total(counts: Record<string, number>): number {
  return Object.values(counts).reduce((sum, n) => sum + n, 0);
}

async function untilFinished(): Promise<void> {
  for (const { id } of pushes) {
    const isFinished = async () =>
      (await fixture.store.deliveryStatus.statusOfPush(id))?.state !== 'open';
    await until(isFinished, { what: `push ${id} finished` });
  }
}

/** How the recipients of all pushes end. */
const BY_CHANNEL = {
  'mqtt delivered': 4,
  'mqtt sent': 2,
  'mqtt expired': 1,
  'mqtt deleted': 1,
  'mqtt superseded': 1,
  'mqtt gone': 1,
  'fcm sent': 1,
  'apns sent': IPHONES + 1,
  'apns failed': 1,
  'web-push sent': 1,
  'web-push gone': 1,
};

test('the metrics of all processes agree with the outcomes of all pushes', async () => {
  await sendToConnectedDevices();
  await sendOverProviders();
  await expire();
  await sendToInboxes();
  await replaceAndDelete();
  await untilFinished();
  const byOutcome = await sumOutcomes();
  let scrapes: Scrape[] = [];
  const recipients = (toKey: (labels: Record<string, string>) => string) =>
    sumBy(scrapes, 'carillon_recipients_total', toKey);
  const outcomeOf = ({ outcome = '' }: Record<string, string>) => outcome;
  // A process counts right after its write, which the outcomes may show first.
  await until(async () => {
    scrapes = await scrapeAll(fixture.stack);
    return total(recipients(outcomeOf)) >= total(byOutcome);
  });
  expect(recipients(outcomeOf)).toEqual(byOutcome);
  expect(recipients(({ channel, outcome }) => `${channel} ${outcome}`)).toEqual(BY_CHANNEL);
  expect(sumBy(scrapes, 'carillon_pushes_accepted_total')).toEqual({ '': pushes.length });
  expect(sumBy(scrapes, 'carillon_inbox_rows_written_total')).toEqual({ '': 8 });
  expect(sumBy(scrapes, 'carillon_inbox_rows_drained_total')).toEqual({ '': 2 });
  const channelOf = ({ channel = '' }: Record<string, string>) => channel;
  expect(sumBy(scrapes, 'carillon_delivery_seconds_count', channelOf)).toMatchObject({ mqtt: 2 });
  const circuits = sumBy(scrapes, 'carillon_provider_circuits', ({ state = '' }) => state);
  expect(circuits).toEqual({ closed: expect.any(Number) });
  expect(circuits.closed).toBeGreaterThanOrEqual(3);
});

test('so do the figures of the console, with the reasons of failures', async () => {
  // The first reading requests the pending work.
  const figures = await until(async () => {
    const sums = await sumFigures(fixture.stack.dev);
    return total(sums.ended) >= total(BY_CHANNEL) && sums.channels.length > 0 ? sums : undefined;
  });
  expect(figures).toEqual({
    accepted: pushes.length,
    ended: BY_CHANNEL,
    failures: { 'bad-provider-address': 1 },
    receipts: 2,
    gateways: [{ gateway: expect.any(String), online: expect.any(Number) }],
    channels: ['apns', 'fcm', 'mqtt', 'web-push'],
    apps: { [tenant.app]: { accepted: pushes.length, delivered: 4, sent: IPHONES + 5, failed: 1 } },
  });
  expect(figures.gateways[0]?.online).toBeGreaterThanOrEqual(2);
});

/** Starts to count recipients by channel and outcome, over the metrics of all processes. */
async function startCounting() {
  const read = async () =>
    sumBy(await scrapeAll(fixture.stack), 'carillon_recipients_total', ({ channel, outcome }) =>
      [channel, outcome].join(' '),
    );
  const before = await read();
  return async () =>
    Object.fromEntries(
      Object.entries(await read()).flatMap(([key, n]) =>
        n === before[key] ? [] : [[key, n - (before[key] ?? 0)]],
      ),
    );
}

/** Sixty iPhones: APNs defers one again and again, and does not know two. */
async function registerWithOneThatWaits() {
  const { tokens, addresses } = await registerIphones(tenant, BATCH);
  const [waiting = '', ...unknown] = addresses.slice(0, 3);
  const { scriptPermanently } = fixture.sandbox;
  await scriptPermanently('apns', waiting, WAIT);
  for (const one of unknown) await scriptPermanently('apns', one, { as: 'BadDeviceToken' });
  return { tokens, waiting };
}

interface Waiting {
  sent: Sent;
  waiting: string;
}

/** How the last recipient ends, and the counts then. */
const ENDS: [string, (waiting: Waiting) => Promise<unknown>, Record<string, number>][] = [
  [
    'is sent to',
    ({ waiting }) => fixture.sandbox.scriptPermanently('apns', waiting, {}),
    { 'apns sent': BATCH - 2, 'apns failed': 2 },
  ],
  [
    'ends with its push',
    ({ sent }) => tenant.api('DELETE', `/pushes/${sent.id}`),
    { 'apns sent': BATCH - 3, 'apns failed': 2, 'apns deleted': 1 },
  ],
];

test.each(ENDS)(
  'all but one recipient of a batch count while that one is tried again, and once when it %s',
  async (_how, end, counts) => {
    const { tokens, waiting } = await registerWithOneThatWaits();
    const readFailures = async () =>
      (await sumFigures(fixture.stack.dev)).failures['bad-provider-address'] ?? 0;
    const failuresBefore = await readFailures();
    const count = await startCounting();
    const sent = await push(tokens);
    const others = { 'apns sent': BATCH - 3, 'apns failed': 2 };
    await until(async () => total(await count()) === BATCH - 1, { what: 'the others count' });
    expect(await count()).toEqual(others);
    await untilCounts(sent, { sent: BATCH - 3, failed: 2, pending: 1 });
    await until(async () => (await readFailures()) > failuresBefore, { what: 'the figures' });
    expect(await readFailures()).toBe(failuresBefore + 2);
    // One of the two workers claims the batch for each of them.
    const countTries = async () =>
      (await fixture.sandbox.received(sent.id)).filter(({ to }) => to === waiting).length;
    await until(async () => (await countTries()) >= 3, { timeoutMs: 60_000, what: 'two retries' });
    expect(await count()).toEqual(others);
    await end({ sent, waiting });
    await until(async () => total(await count()) >= BATCH, { timeoutMs: 60_000, what: 'the end' });
    expect(await count()).toEqual(counts);
    expect(await readFailures()).toBe(failuresBefore + 2);
  },
);

/** Registers a device that is connected, by its presence, to a gateway that never replies. */
async function connectToSilentGateway(): Promise<string> {
  const { token } = await fleet.offline();
  const [gateway, keys] = [randomUUID(), createPresenceKeys()];
  const redis = await openRedis(fixture.stack.dev);
  await redis.xadd(keys.gatewayStream(gateway), '*', 'begin', '');
  await redis.set(keys.lease(gateway), 1_000);
  await redis.set(keys.presence(token), encodePresence(gateway, randomUUID(), Date.now()));
  redis.disconnect();
  return token;
}

test('devices that have acknowledged count while the gateway of another one does not reply', async () => {
  const devices = await fleet.createMany(3, 'online');
  const silent = await connectToSilentGateway();
  const count = await startCounting();
  const sent = await push([...devices.map(({ token }) => token), silent]);
  await untilCounts(sent, { delivered: 3, pending: 1 });
  await until(async () => total(await count()) > 0, { what: 'the metrics' });
  expect(await count()).toEqual({ 'mqtt delivered': 3 });
  expect((await getPushStatus(tenant, sent.id)).pending_devices).toEqual([silent]);
  await untilCounts(sent, { delivered: 3, inbox: 1 });
  expect(await count()).toEqual({ 'mqtt delivered': 3 });
});

test('a repeated request is not counted as another push', async () => {
  const { token } = await fleet.online();
  const before = sumBy(await scrapeAll(fixture.stack), 'carillon_pushes_accepted_total');
  const headers = {
    'content-type': 'application/json',
    'idempotency-key': randomUUID(),
  };
  const url = `${tenant.dev.api}/push?api_key=${tenant.apiKey}`;
  const body = JSON.stringify({ to: token, data: { a: 1 } });
  for (let request = 0; request < 2; request += 1)
    expect((await fetch(url, { method: 'POST', headers, body })).status).toBe(200);
  const after = sumBy(await scrapeAll(fixture.stack), 'carillon_pushes_accepted_total');
  expect(Number(after[''])).toBe(Number(before['']) + 1);
});

async function callHostile(path: string, method = 'GET'): Promise<void> {
  const response = await fetch(`${tenant.dev.api}${path}`, { method });
  await response.arrayBuffer();
}

test('no label has a token, a key, a name that a client chose, or an id but that of an app with a backlog', async () => {
  const { token } = await fleet.offline();
  const topic = `topic-${randomUUID()}`;
  await tenant.api('POST', '/topics/subscribe', { token, topics: [topic] });
  await send(tenant, `/topics/${topic}`);
  secrets.push(token, topic, HOSTILE, 'PROPFIND');
  for (const path of ['/', '/pushes/', '/devices/', '/topics/'])
    await callHostile(`${path}${encodeURIComponent(HOSTILE)}?api_key=${tenant.apiKey}`);
  await callHostile(`/${token}`, 'PROPFIND');
  await callHostile(`/devices/${token}?api_key=${encodeURIComponent(HOSTILE)}`, 'DELETE');
  await callHostile(`/devices/${token}?api_key=${tenant.apiKey}`);
  const scrapes = await scrapeAll(fixture.stack);
  const values = new Set(
    scrapes.flatMap(({ samples }) =>
      samples
        .filter(({ name }) => name.startsWith('carillon_') && name !== OF_APPS)
        .flatMap(({ labels }) => Object.values(labels)),
    ),
  );
  expect([...values].filter((value) => !LABEL_VALUE.test(value))).toEqual([]);
  expect([...values].filter((value) => secrets.some((text) => value.includes(text)))).toEqual([]);
  const ofApps = scrapes.flatMap(({ samples }) => samples.filter(({ name }) => name === OF_APPS));
  for (const { labels } of ofApps) expect(labels).toEqual({ app: expect.stringMatching(APP_ID) });
  expect(ofApps.length).toBeLessThanOrEqual(10);
  // The stack has been through much, and a set that grew with it would be longer.
  expect(values.size).toBeLessThan(150);
});

test('each service exposes the metrics of the list, and no others', async () => {
  const listed = Object.entries<Metric>(METRICS);
  for (const { service, metrics, samples } of await scrapeAll(fixture.stack)) {
    const exposed = [...metrics].filter(([name]) => name.startsWith('carillon_'));
    const expected = listed.filter(([, { services }]) => services.some((one) => one === service));
    expect({ service, names: exposed.map(([name]) => name).sort() }).toEqual({
      service,
      names: expected.map(([name]) => name).sort(),
    });
    for (const [name, { type, help, labels }] of expected) {
      expect(metrics.get(name)).toEqual({ type, help });
      const own = samples.filter((sample) => sample.name.replace(SERIES, '') === name);
      const names = new Set(own.flatMap((sample) => Object.keys(sample.labels)));
      names.delete('le');
      expect([...labels]).toEqual(expect.arrayContaining([...names]));
    }
  }
});

/** Ends of the names of a histogram's series. */
const SERIES = /_(bucket|sum|count)$/;
