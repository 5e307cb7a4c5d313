import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { TestTenant } from '../support/api/tenants.ts';
import { runCarillonJson } from '../support/carillon.ts';
import { type Sent, send } from '../support/end-to-end/pushes.ts';
import { createFleet } from '../support/guarantees/devices.ts';
import { registerAndroid } from '../support/providers/devices.ts';
import type { ProviderFixture } from '../support/providers/fixture.ts';
import { untilOutcomeCounts } from '../support/providers/outcomes.ts';
import { registerIphones } from '../support/providers/provider-device-pool.ts';
import { useSharedProviders } from '../support/shared-stack.ts';
import { until } from '../support/until.ts';

const WAIT_SECONDS = 600;

interface Recipient {
  token: string;
  outcome: string;
  channel: string;
  reason?: string;
  detail?: string;
  milliseconds?: number;
  attempts?: { channel: string; outcome: string; tries?: number; next_try?: number }[];
}

interface Outcomes {
  push: { id: string; state: string; devices: number };
  resolved: boolean;
  recipients: number;
  outcomes: Record<string, number>;
  channels: Record<string, Record<string, number>>;
  reasons: Record<string, number>;
  latency?: { count: number; p50: number; max: number };
  first_receipt?: number;
  last_receipt?: number;
}

let fixture: ProviderFixture;
let tenant: TestTenant;
const fleet = createFleet(() => tenant.dev);
beforeAll(async () => {
  fixture = await useSharedProviders();
  tenant = await fixture.tenant();
});
afterAll(async () => {
  await fleet.disconnectAll();
  await fixture?.close();
});

const getOutcomes = async ({ id }: Pick<Sent, 'id'>) =>
  (await tenant.api<Outcomes>('GET', `/pushes/${id}/outcomes`)).json;

async function getRecipients({ id }: Pick<Sent, 'id'>, query = ''): Promise<Recipient[]> {
  const path = `/pushes/${id}/recipients${query}`;
  const { json } = await tenant.api<{ recipients: Recipient[]; next_page?: string }>('GET', path);
  expect(json.next_page).toBeUndefined();
  return json.recipients;
}

async function getRecipient({ id }: Pick<Sent, 'id'>, token: string): Promise<Recipient> {
  const path = `/pushes/${id}/recipients/${token}`;
  return (await tenant.api<{ recipient: Recipient }>('GET', path)).json.recipient;
}

interface DevicePush {
  id: string;
  recipient: Recipient;
}

async function getPushesOf(token: string): Promise<DevicePush[]> {
  const path = `/devices/${token}/pushes`;
  return (await tenant.api<{ pushes: DevicePush[] }>('GET', path)).json.pushes;
}

/** Expects counts, list, single recipients and the lists of their devices to agree, and returns each outcome by token. */
async function readAll(push: Sent): Promise<Record<string, string>> {
  const recipients = await getRecipients(push);
  const { outcomes, recipients: count } = await getOutcomes(push);
  const byOutcome = Object.groupBy(recipients, ({ outcome }) => outcome);
  const counted = Object.entries(byOutcome).map(([name, some = []]) => [name, some.length]);
  expect(Object.fromEntries(counted)).toEqual(outcomes);
  expect(count).toBe(recipients.length);
  for (const [outcome, some] of Object.entries(byOutcome))
    expect(await getRecipients(push, `?outcome=${outcome}`)).toEqual(some);
  for (const recipient of recipients)
    expect(await getRecipient(push, recipient.token)).toMatchObject(recipient);
  for (const { token } of recipients.filter((one) => one.outcome !== 'gone'))
    expect(await getPushesOf(token)).toContainEqual(
      expect.objectContaining({ id: push.id, recipient: await getRecipient(push, token) }),
    );
  return Object.fromEntries(recipients.map(({ token, outcome }) => [token, outcome]));
}

/** Devices of each kind, for which APNs responds as scripted. */
async function registerMixed() {
  const online = await fleet.online();
  const offline = await fleet.offline();
  const removed = await fleet.offline();
  const { tokens, addresses } = await registerIphones(tenant, 4);
  const [, waiting = '', bad = '', gone = ''] = addresses;
  const headers = { 'retry-after': String(WAIT_SECONDS) };
  const { sandbox } = fixture;
  await sandbox.scriptPermanently('apns', waiting, { as: 'ServiceUnavailable', headers });
  await sandbox.scriptPermanently('apns', bad, { as: 'BadDeviceToken' });
  await sandbox.scriptPermanently('apns', gone, { as: 'Unregistered' });
  return { online, offline, removed, iphones: tokens as [string, string, string, string] };
}

interface ShownRecipient {
  token: string;
  outcome: string;
  detail?: string;
  nextTryAt?: string;
}

/** Expects the command line to show the answers of the provider while one recipient waits. */
async function expectShownByCommandLine(
  { id }: Sent,
  { waiting, bad, gone }: Record<'waiting' | 'bad' | 'gone', string>,
): Promise<void> {
  const show = <T>(...args: string[]): Promise<T> =>
    runCarillonJson<T>(fixture.stack.home, 'push', 'outcomes', id, ...args);
  const { nextTryAt = '', ...one } = await show<ShownRecipient>('--token', waiting);
  expect(one).toMatchObject({ outcome: 'pending', detail: '503 ServiceUnavailable', tries: 1 });
  const inMs = Date.parse(nextTryAt) - Date.now();
  expect(inMs).toBeGreaterThan((WAIT_SECONDS - 60) * 1_000);
  expect(inMs).toBeLessThan(WAIT_SECONDS * 1_200);
  const [reason, detail] = ['bad-provider-address', '400 BadDeviceToken'];
  expect(await show('--token', bad)).toEqual({ token: bad, outcome: 'failed', reason, detail });
  const { recipients } = await show<{ recipients: ShownRecipient[] }>();
  const details = Object.fromEntries(recipients.map((shown) => [shown.token, shown.detail]));
  expect(details).toMatchObject({
    ...{ [waiting]: '503 ServiceUnavailable', [bad]: detail, [gone]: '410 Unregistered' },
  });
}

test('a push of all channels and ends, until after its deletion', async () => {
  const { online, offline, removed, iphones } = await registerMixed();
  const [sent, waiting, bad, gone] = iphones;
  const mqtt = [online, offline, removed].map(({ token }) => token);
  const push = await send(tenant, [...mqtt, ...iphones]);
  const counts = { delivered: 1, inbox: 2, sent: 1, pending: 1, failed: 1, gone: 1 };
  await untilOutcomeCounts(fixture.store, push, counts);
  await tenant.api('DELETE', `/devices/${removed.token}`);
  const isGone = async () => (await getRecipient(push, removed.token)).outcome === 'gone';
  await until(isGone, { what: 'the removed device ends' });
  const ends = {
    ...{ [online.token]: 'delivered', [offline.token]: 'pending', [removed.token]: 'gone' },
    ...{ [sent]: 'sent', [waiting]: 'pending', [bad]: 'failed', [gone]: 'gone' },
  };
  expect(await readAll(push)).toEqual(ends);
  // The devices and the provider saw the same.
  expect(online.arrivals.map(({ payload }) => payload)).toEqual([push.payload]);

  const report = await getOutcomes(push);
  expect(report).toMatchObject({
    push: { id: push.id, state: 'open', devices: 7 },
    resolved: true,
    reasons: { 'bad-provider-address': 1 },
    channels: { mqtt: { delivered: 1, pending: 1, gone: 1 } },
    latency: { count: 1, p50: expect.any(Number) },
  });
  expect(report.latency?.max).toBe((await getRecipient(push, online.token)).milliseconds);
  expect(await getRecipient(push, bad)).toMatchObject({ detail: '400 BadDeviceToken' });
  await expectShownByCommandLine(push, { waiting, bad, gone });
  const deferred = await getRecipient(push, waiting);
  expect(deferred.attempts).toEqual([
    expect.objectContaining({ channel: 'apns', tries: 1, next_try: expect.any(Number) }),
  ]);

  await tenant.api('DELETE', `/pushes/${push.id}`);
  const deleted = { ...ends, [offline.token]: 'deleted', [waiting]: 'deleted' };
  await until(async () => (await getOutcomes(push)).outcomes.pending === undefined);
  expect(await readAll(push)).toEqual(deleted);
  expect((await getOutcomes(push)).push.state).toBe('deleted');
  // The provider's reason is kept when all have ended.
  expect(await getRecipient(push, bad)).toMatchObject({ detail: '400 BadDeviceToken' });
  expect((await tenant.api('GET', `/pushes/${push.id}`)).json).toMatchObject({
    code: 'INVALID_PUSH_ID',
  });
});

test('the pushes of a device are listed in pages, for its app only', async () => {
  const { token } = await fleet.offline();
  const scheduled = await send(tenant, token, {
    schedule: Math.floor(Date.now() / 1_000) + 3_600,
  });
  const sent: Sent[] = [];
  for (let n = 0; n < 101; n += 1) sent.unshift(await send(tenant, token));
  const getPage = async (query: string) => {
    const path = `/devices/${token}/pushes${query}`;
    return (await tenant.api<{ pushes: DevicePush[]; next_page?: string }>('GET', path)).json;
  };
  const first = await getPage('');
  const second = await getPage(`?page=${first.next_page}`);
  expect([first.pushes.length, second.pushes.length, second.next_page]).toEqual([
    100,
    2,
    undefined,
  ]);
  const ids = [...first.pushes, ...second.pushes].map(({ id }) => id);
  expect(ids).toEqual([scheduled, ...sent].map(({ id }) => id));
  expect(first.pushes[0]).toMatchObject({ state: 'scheduled', recipient: { outcome: 'pending' } });
  const errorOf = async (by: TestTenant, path: string) =>
    (await by.api<{ code: string }>('GET', path)).json.code;
  const stranger = await fixture.tenant();
  expect(await errorOf(stranger, `/devices/${token}/pushes`)).toBe('APP_MISMATCH');
  expect(await errorOf(tenant, `/devices/${'f'.repeat(22)}/pushes`)).toBe('INVALID_DEVICE_TOKEN');
  expect(await errorOf(tenant, `/devices/${token}/pushes?page=x`)).toBe('INVALID_PARAM');
  await tenant.api('DELETE', `/devices/${token}`);
  expect(await errorOf(tenant, `/devices/${token}/pushes`)).toBe('INVALID_DEVICE_TOKEN');
});

test('the receipt of a device that was offline is in the times of its push', async () => {
  const online = await fleet.online();
  const offline = await fleet.offline();
  const push = await send(tenant, [online.token, offline.token]);
  await untilOutcomeCounts(fixture.store, push, { delivered: 1, inbox: 1 });
  const before = await getOutcomes(push);
  expect(before.latency?.count).toBe(1);
  await offline.connect();
  await until(async () => (await getOutcomes(push)).outcomes.delivered === 2);
  const report = await getOutcomes(push);
  const { milliseconds = 0 } = await getRecipient(push, offline.token);
  // It was recorded after the receipt that the worker has waited for.
  expect(milliseconds).toBeGreaterThan(before.latency?.max ?? 0);
  expect(report.latency).toMatchObject({ count: 2, max: milliseconds });
  expect(report.first_receipt).toBe(before.first_receipt);
  expect(report.last_receipt).toBeGreaterThanOrEqual(before.last_receipt ?? 0);
  expect(await getRecipients(push)).toContainEqual(
    expect.objectContaining({ token: offline.token, outcome: 'delivered', milliseconds }),
  );
  const path = `/export/recipients?push=${push.id}&api_key=${tenant.dev.apiKey}`;
  const exported = await (await fetch(new URL(path, tenant.dev.api))).text();
  expect(exported).toContain(`"milliseconds":${milliseconds}`);
});

test('a recipient with a fallback to FCM is listed once, with both attempts', async () => {
  // An app of its own: workers keep the settings of an app that they have sent for.
  tenant = await fixture.tenant({ fcm: 1 });
  const { token } = await registerAndroid(tenant.dev);
  const push = await send(tenant, token, { time_to_live: 6 });
  const channelsTried = async () =>
    ((await getRecipient(push, token)).attempts ?? []).map(({ channel }) => channel).join();
  const isTried = async () => (await channelsTried()) === 'mqtt,fcm';
  await until(isTried, { timeoutMs: 60_000, what: 'both channels' });
  const isSent = async () => (await getOutcomes(push)).outcomes.pending === undefined;
  await until(isSent, { timeoutMs: 60_000, what: 'the answer of FCM' });
  const hasExpired = async () => (await getOutcomes(push)).push.state === 'expired';
  await until(hasExpired, { timeoutMs: 60_000, what: 'the expiry' });
  expect(await readAll(push)).toEqual({ [token]: 'sent' });
  expect((await getOutcomes(push)).channels).toEqual({ fcm: { sent: 1 } });
});

test('pushes are listed by time and state', async () => {
  const { token } = await fleet.online();
  const push = await send(tenant, token);
  const schedule = Math.floor(Date.now() / 1_000) + 3_600;
  const scheduled = await send(tenant, token, { schedule });
  const list = async (query: string) => {
    const path = `/pushes?${query}`;
    const { json } = await tenant.api<{ pushes: { id: string }[] }>('GET', path);
    return json.pushes.map(({ id }) => id);
  };
  expect((await list('')).slice(0, 2)).toEqual([scheduled.id, push.id]);
  expect(await list('state=scheduled')).toEqual([scheduled.id]);
  expect(await list(`from=${schedule}`)).toEqual([scheduled.id]);
  expect(await list(`to=${schedule}`)).not.toContain(scheduled.id);
});
