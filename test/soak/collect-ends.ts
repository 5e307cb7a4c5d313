import type { TestTenant } from '../support/api/tenants.ts';
import type { WebhookReceiver } from '../support/api/webhook-receiver.ts';
import { type ApiResponse, callApi } from '../support/stack/call-api.ts';
import { until } from '../support/until.ts';
import { acceptedId } from './checker.ts';
import type { DeviceEnd, History, Outcomes, PushEnd, Reports, SentPush } from './history.ts';
import { TENANT_NAMES, type TenantName } from './plan.ts';
import type { Swarm } from './swarm.ts';
import type { System } from './system.ts';

const READS_AT_ONCE = 20;
/** How long a request is repeated that fails. */
const READ_FOR_MS = 30_000;
/** How long presence and counters may take to agree after all faults. */
const AGREE_MS = 60_000;

/** How long the webhook may take to be told of the last ends. */
const REPORT_MS = 120_000;

/** A tenant's webhook. */
export interface Reporting extends Pick<Reports, 'tenant' | 'sinceMs'> {
  receiver: WebhookReceiver;
}

type Tenants = Record<TenantName, Pick<TestTenant, 'dev'>>;

/** Reads how each accepted push has ended: over the HTTP API, and from the database. */
export async function collectEnds(
  { store }: Pick<System, 'store'>,
  tenants: Tenants,
  pushes: readonly SentPush[],
): Promise<Record<string, PushEnd>> {
  const ends: Record<string, PushEnd> = {};
  await forEachAtOnce(pushes, async (push) => {
    const id = acceptedId(push);
    if (id === undefined) return;
    const { dev } = tenants[push.tenant];
    // Nothing changes any more, so that they need no order; a run of an hour has more than a hundred thousand pushes.
    const [counted, shown, recipients, stored] = await Promise.all([
      read<{ outcomes: Record<string, number> }>(dev, `/pushes/${id}/outcomes`),
      read<{ push?: { pending_devices: string[] } }>(dev, `/pushes/${id}`),
      readRecipients(dev, id),
      readStored(store, id, push.audience),
    ]);
    if (counted.status !== 200) return;
    const pendingDevices = shown.json.push?.pending_devices;
    ends[id] = {
      counts: counted.json.outcomes,
      recipients,
      stored,
      ...(pendingDevices && { pendingDevices }),
    };
  });
  return ends;
}

/**
 * Reads which push ids the API shows to each tenant: in its list, and in response to requests about the pushes of the other
 * one.
 */
export async function collectShown(
  tenants: Tenants,
  pushes: readonly SentPush[],
): Promise<History['shown']> {
  const shown: Record<TenantName, string[]> = { a: [], b: [] };
  const idsOf = Map.groupBy(pushes, ({ tenant }) => tenant);
  for (const name of TENANT_NAMES) shown[name] = await listPushIds(tenants[name].dev);
  // The second tenant has few pushes.
  await forEachAtOnce(idsOf.get('b') ?? [], async (push) => {
    const id = acceptedId(push);
    const routes = ['', '/outcomes', '/recipients', `/recipients/${push.audience[0]}`];
    for (const route of id === undefined ? [] : routes) {
      const { status } = await read(tenants.a.dev, `/pushes/${id}${route}`);
      if (status === 200 && id !== undefined) shown.a.push(id);
    }
  });
  return shown;
}

/** Reads what a webhook was told; waits for a while until it knows the end of each recipient. */
export async function collectReports(
  { receiver, tenant, sinceMs }: Reporting,
  pushes: readonly SentPush[],
  ends: History['ends'],
): Promise<Reports> {
  const expected = pushes
    .filter((push) => push.tenant === tenant)
    .map((push) => acceptedId(push) ?? '')
    .flatMap((id) =>
      Object.entries(ends[id]?.recipients ?? {}).map((one) => [id, ...one] as const),
    );
  let outcomes: Reports['outcomes'] = {};
  const areReported = () => {
    outcomes = readReports(receiver);
    return expected.every(([id, token, outcome]) => outcomes[id]?.[token]?.includes(outcome));
  };
  await until(areReported, { timeoutMs: REPORT_MS, everyMs: 2_000 }).catch(() => undefined);
  return { tenant, sinceMs, outcomes, wrongRequests: receiver.forged() + receiver.foreign() };
}

/** Reads the outcomes of recipients; those that were not final count unless final ones have followed. */
function readReports({ requests }: Pick<WebhookReceiver, 'requests'>): Reports['outcomes'] {
  const reports: Record<string, Record<string, string[]>> = {};
  const final: Record<string, Record<string, string[]>> = {};
  for (const { events } of requests())
    for (const { type, data } of events) {
      const [, outcome] = /^recipient\.(.+)$/.exec(type) ?? [];
      if (outcome === undefined) continue;
      const known = data.final === true ? final : reports;
      const [push, token] = [String(data.push), String(data.token)];
      known[push] ??= {};
      known[push][token] = [...new Set([...(known[push][token] ?? []), outcome])];
    }
  for (const [push, outcomes] of Object.entries(final))
    reports[push] = { ...reports[push], ...outcomes };
  return reports;
}

/** Disconnects some devices, and reads what the API shows of all that have MQTT; waits for a while until it is right. */
export async function collectDevices(tenants: Tenants, swarm: Swarm): Promise<DeviceEnd[]> {
  await swarm.disconnectSome();
  let devices: DeviceEnd[] = [];
  const agree = async () => {
    devices = await readDevices(tenants, swarm);
    return devices.every(
      ({ isConnected, isOnline, pendingNotifications }) =>
        isConnected === isOnline && pendingNotifications === 0,
    );
  };
  await until(agree, { timeoutMs: AGREE_MS, everyMs: 1_000 }).catch((error: unknown) => {
    if (devices.length === 0) throw error;
  });
  return devices;
}

async function readDevices(tenants: Tenants, swarm: Swarm): Promise<DeviceEnd[]> {
  const devices: DeviceEnd[] = [];
  for (const name of TENANT_NAMES) {
    const { dev } = tenants[name];
    const connections = swarm.listConnections(name);
    const { json } = await callApi<{ presence: { id: string; online: boolean }[] }>(
      dev,
      'POST',
      '/devices/presence',
      { tokens: connections.map(({ token }) => token) },
    );
    const online = new Map(json.presence.map((one) => [one.id, one.online]));
    await forEachAtOnce(connections, async ({ token, isConnected }) => {
      const info = await read<{ pending_notifications: unknown[] }>(dev, `/devices/${token}`);
      const pendingNotifications = info.json.pending_notifications.length;
      const isOnline = online.get(token) ?? false;
      devices.push({ token, isConnected, isOnline, pendingNotifications });
    });
  }
  return devices;
}

async function readRecipients(dev: TestTenant['dev'], id: string): Promise<Outcomes['recipients']> {
  const recipients: Record<string, string> = {};
  let page: string | undefined;
  do {
    const query = page === undefined ? '' : `?page=${page}`;
    const { json } = await read<{
      recipients?: { token: string; outcome: string }[];
      next_page?: string;
    }>(dev, `/pushes/${id}/recipients${query}`);
    // A push that the API does not show any more has none.
    for (const { token, outcome } of json.recipients ?? []) recipients[token] = outcome;
    page = json.next_page;
  } while (page !== undefined);
  return recipients;
}

async function readStored(
  { deliveryStatus }: System['store'],
  id: string,
  audience: readonly string[],
): Promise<Outcomes> {
  const stored = (await deliveryStatus.statusOfPush(id))?.outcomes ?? {};
  const { pending: unsent = 0, inbox = 0, ...ended } = stored;
  const pending = unsent + inbox;
  const recipients: Record<string, string> = {};
  for (const token of audience) {
    const outcome = (await deliveryStatus.statusOfRecipient(id, token))?.outcome ?? 'none';
    recipients[token] = ['pending', 'inbox'].includes(outcome) ? 'pending' : outcome;
  }
  return { counts: { ...ended, ...(pending > 0 && { pending }) }, recipients };
}

async function listPushIds(dev: TestTenant['dev']): Promise<string[]> {
  const ids: string[] = [];
  let page: string | undefined;
  do {
    const { json } = await read<{ pushes: { id: string }[]; next_page?: string }>(
      dev,
      page === undefined ? '/pushes' : `/pushes?page=${page}`,
    );
    ids.push(...json.pushes.map(({ id }) => id));
    page = json.next_page;
  } while (page !== undefined);
  return ids;
}

/** Sends a GET request until the response is none of an outage. */
function read<T = unknown>(dev: TestTenant['dev'], path: string): Promise<ApiResponse<T>> {
  const answered = async () => {
    const response = await callApi<T>(dev, 'GET', path);
    return response.status < 500 && response;
  };
  return until(answered, { timeoutMs: READ_FOR_MS, everyMs: 500, what: `GET ${path}` });
}

/** Calls a function for each of a list, for some of them at a time. */
async function forEachAtOnce<T>(
  list: readonly T[],
  task: (one: T) => Promise<void>,
): Promise<void> {
  const remaining = [...list];
  const workNext = async () => {
    for (let one = remaining.pop(); one !== undefined; one = remaining.pop()) await task(one);
  };
  await Promise.all(Array.from({ length: READS_AT_ONCE }, workNext));
}
