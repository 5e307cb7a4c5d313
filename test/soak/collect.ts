import type { TestTenant } from '../support/api/tenants.ts';
import type { WebhookReceiver } from '../support/api/webhook-receiver.ts';
import type { TestMongo } from '../support/mongo.ts';
import { type ApiResponse, callApi } from '../support/stack/call-api.ts';
import { until } from '../support/until.ts';
import { listUnreported } from './checker.ts';
import {
  acceptedId,
  FLAGS,
  type Flag,
  type GoneDevice,
  type History,
  type Outcomes,
  type PushEnd,
  type Reports,
  type SentPush,
} from './history.ts';
import { createRandom, TENANT_NAMES, type TenantName } from './plan.ts';
import { readStored } from './read-stored.ts';
import type { Swarm } from './swarm.ts';
import type { System } from './system.ts';

/** Pushes that are read over all routes of the API. */
const SAMPLED_PUSHES = 5_000;
const READS_AT_ONCE = 20;
/** Exports of an app at a time. It may have two in progress, and one that has ended counts until that is recorded. */
const EXPORTS_AT_ONCE = 1;
/** How long a request is repeated that fails. */
const REPEATED = { timeoutMs: 60_000, everyMs: 500 };
/** No other response below 500 becomes another one. */
const TOO_MANY_EXPORTS = 429;
/** How long presence and counters may take to agree after all faults. */
const AGREE_MS = 60_000;
/** Longest time until the last ends are reported to the webhook. */
const REPORT_MS = 120_000;

/** A tenant's webhook. */
export interface Reporting extends Pick<Reports, 'tenant' | 'sinceMs'> {
  receiver: WebhookReceiver;
}

type Tenants = Record<TenantName, Pick<TestTenant, 'dev'>>;
type Dev = TestTenant['dev'];
/** Accepted pushes by id. */
type Accepted = ReadonlyMap<string, SentPush>;

/** Sends a GET request until the response is none of an outage. */
function read<T>(dev: Dev, path: string): Promise<ApiResponse<T>> {
  const hasResponse = async () => {
    const response = await callApi<T>(dev, 'GET', path);
    return response.status < 500 && response;
  };
  return until(hasResponse, { ...REPEATED, what: `GET ${path}` });
}

/** Reads all pages of a list. One that the API does not show is empty. */
async function readPages<Row>(dev: Dev, path: string, name: string): Promise<Row[]> {
  const rows: Row[] = [];
  for (let page: string | undefined = ''; page !== undefined; ) {
    const query: string = page === '' ? '' : `?page=${page}`;
    const { json } = await read<Record<string, unknown>>(dev, `${path}${query}`);
    rows.push(...((json[name] ?? []) as Row[]));
    page = json.next_page as string | undefined;
  }
  return rows;
}

/** Reads an export in NDJSON. One that was cut, or refused because others are in progress, is requested again. */
export async function readExport<Row>(
  { api, apiKey }: Pick<Dev, 'api' | 'apiKey'>,
  path: string,
): Promise<Row[]> {
  const headers = { authorization: `Bearer ${apiKey}` };
  const isRead = async () => {
    const response = await fetch(new URL(path, api), { headers });
    const text = await response.text();
    if (response.status === TOO_MANY_EXPORTS || response.status >= 500) return false;
    if (response.status !== 200) return [];
    const rows = text.split('\n').filter((line) => line !== '');
    const last = JSON.parse(rows.pop() ?? '{}') as { complete?: boolean };
    // `false` means that recipients are still being added. What is missing is found by the counts.
    return last.complete !== undefined && rows.map((row) => JSON.parse(row) as Row);
  };
  return until(isRead, { ...REPEATED, what: `a complete export ${path}` });
}

/** Calls a function for each of a list, for some of them at a time. */
async function forEachAtOnce<T>(
  list: Iterable<T>,
  task: (one: T) => Promise<void>,
  atOnce = READS_AT_ONCE,
): Promise<void> {
  const remaining = [...list];
  const workNext = async () => {
    for (let one = remaining.pop(); one !== undefined; one = remaining.pop()) await task(one);
  };
  await Promise.all(Array.from({ length: atOnce }, workNext));
}

const byToken = (rows: readonly { token: string; outcome: string }[]): Outcomes['recipients'] =>
  Object.fromEntries(rows.map(({ token, outcome }) => [token, outcome]));

/**
 * Reads how each accepted push has ended: its counts from the export of its tenant, its recipients one by one over the API, and
 * both from the database. Some pushes, which the seed determines, are also read over the other routes.
 */
export async function collectEnds(
  source: Pick<System, 'store'> & Pick<TestMongo, 'db'>,
  tenants: Tenants,
  { pushes, seed }: Pick<History, 'pushes' | 'seed'>,
): Promise<Record<string, PushEnd>> {
  const accepted: Accepted = new Map(
    pushes.flatMap((push) => {
      const id = acceptedId(push);
      return id === undefined ? [] : [[id, push] as const];
    }),
  );
  const counts = new Map<string, Outcomes['counts'] | undefined>();
  for (const name of TENANT_NAMES) {
    type Row = { id: string; outcomes?: Record<string, number> };
    for (const { id, outcomes } of await readExport<Row>(tenants[name].dev, '/export/pushes'))
      if (accepted.get(id)?.tenant === name) counts.set(id, outcomes);
  }
  const sampled = createRandom(seed).sample([...accepted.keys()], SAMPLED_PUSHES);
  // The export counts only the recipients of a push that has ended.
  const uncounted = [...counts.keys()].filter((id) => counts.get(id) === undefined);
  const recipients = new Map<string, Outcomes['recipients']>();
  // Nothing changes any more, so that the readings need no order.
  const [samples, stored] = await Promise.all([
    readSamples(tenants, accepted, new Set([...sampled, ...uncounted])),
    readStored(source, accepted),
    forEachAtOnce(accepted, async ([id, { tenant }]) => {
      const path = `/pushes/${id}/recipients`;
      recipients.set(id, byToken(await readPages(tenants[tenant].dev, path, 'recipients')));
    }),
  ]);
  return Object.fromEntries(
    [...counts].map(([id, exported]): [string, PushEnd] => {
      const sample = samples.get(id);
      const end = {
        counts: exported ?? sample?.counts ?? {},
        recipients: recipients.get(id) ?? {},
        stored: stored.get(id) ?? { counts: {}, recipients: {} },
      };
      return [id, { ...end, ...(sample && { sample }) }];
    }),
  );
}

/** Reads pushes over the routes that show one each, and their recipients from the export. */
async function readSamples(
  tenants: Tenants,
  accepted: Accepted,
  ids: ReadonlySet<string>,
): Promise<Map<string, NonNullable<PushEnd['sample']>>> {
  const samples = new Map<string, NonNullable<PushEnd['sample']>>();
  const byTenant = Map.groupBy(ids, (id) => accepted.get(id)?.tenant);
  const readOf = async (name: TenantName) => {
    const { dev } = tenants[name];
    const task = async (id: string) => {
      const [counted, shown, rows] = await Promise.all([
        read<{ outcomes?: Record<string, number> }>(dev, `/pushes/${id}/outcomes`),
        read<{ push?: { pending_devices: string[] } }>(dev, `/pushes/${id}`),
        readExport<{ token: string; outcome: string }>(dev, `/export/recipients?push=${id}`),
      ]);
      const pendingDevices = shown.json.push?.pending_devices;
      const sample = { counts: counted.json.outcomes ?? {}, recipients: byToken(rows) };
      samples.set(id, { ...sample, ...(pendingDevices && { pendingDevices }) });
    };
    await forEachAtOnce(byTenant.get(name) ?? [], task, EXPORTS_AT_ONCE);
  };
  await Promise.all(TENANT_NAMES.map(readOf));
  return samples;
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
  for (const name of TENANT_NAMES) {
    const listed = await readPages<{ id: string }>(tenants[name].dev, '/pushes', 'pushes');
    shown[name] = listed.map(({ id }) => id);
  }
  // The second tenant has few pushes.
  await forEachAtOnce(
    pushes.filter(({ tenant }) => tenant === 'b'),
    async (push) => {
      const id = acceptedId(push);
      if (id === undefined) return;
      for (const route of ['', '/outcomes', '/recipients', `/recipients/${push.audience[0]}`])
        if ((await read(tenants.a.dev, `/pushes/${id}${route}`)).status === 200) shown.a.push(id);
    },
  );
  return shown;
}

/** Reads the events that a webhook has received; waits for a while until they contain each end, and each flag. */
export async function collectReports(
  { receiver, tenant, sinceMs }: Reporting,
  { pushes, gone }: { pushes: readonly SentPush[]; gone: readonly GoneDevice[] },
  ends: History['ends'],
): Promise<Reports> {
  const own = pushes.filter((push) => push.tenant === tenant && acceptedId(push) !== undefined);
  const flagged = gone.filter((device) => device.tenant === tenant);
  let found = readEvents(receiver);
  const areReported = () => {
    found = readEvents(receiver);
    return (
      own.every((push) => listUnreported(found, push, ends[acceptedId(push) ?? '']).length === 0) &&
      flagged.every(({ token, channel }) => found.flags[token]?.includes(FLAGS[channel]))
    );
  };
  await until(areReported, { timeoutMs: REPORT_MS, everyMs: 2_000 }).catch(() => undefined);
  return { tenant, sinceMs, ...found, wrongRequests: receiver.forged() + receiver.foreign() };
}

/** Reads outcomes of recipients (those that were not final count unless final ones have followed), ended pushes, and flags. */
function readEvents({
  requests,
}: Pick<WebhookReceiver, 'requests'>): Pick<Reports, 'outcomes' | 'finished' | 'flags'> {
  const events = requests().flatMap((request) => request.events);
  const early: Record<string, Record<string, string[]>> = {};
  const final: Record<string, Record<string, string[]>> = {};
  const finished = new Set<string>();
  const flags: Record<string, string[]> = {};
  for (const { type, data } of events) {
    const [push, token] = [String(data.push), String(data.token)];
    const [, subject, name = ''] = /^(recipient|device)\.(.+)$/.exec(type) ?? [];
    if (type === 'push.finished') finished.add(push);
    else if (subject === 'recipient') {
      const outcomes = data.final === true ? final : early;
      outcomes[push] ??= {};
      outcomes[push][token] = [...new Set([...(outcomes[push][token] ?? []), name])];
    } else if (name === 'uninstalled' || name === 'unsubscribed')
      flags[token] = [...new Set([...(flags[token] ?? []), name])];
  }
  const merged = Object.entries(final).map(([push, ofPush]) => [
    push,
    { ...early[push], ...ofPush },
  ]);
  const outcomes = { ...early, ...Object.fromEntries(merged) };
  return { outcomes, finished: [...finished], flags };
}

type Presence = { id: string; online: boolean } & Partial<Record<Flag, boolean>>;

async function readPresence(dev: Dev, tokens: readonly string[]): Promise<Presence[]> {
  const body = { tokens };
  return (await callApi<{ presence: Presence[] }>(dev, 'POST', '/devices/presence', body)).json
    .presence;
}

/** Reads which of some devices have a flag, by their tokens. */
export async function readFlags(
  dev: Dev,
  tokens: readonly string[],
): Promise<Record<string, Flag>> {
  const flags: Record<string, Flag> = {};
  for (const { id, uninstalled, unsubscribed } of await readPresence(dev, tokens)) {
    if (uninstalled === true) flags[id] = 'uninstalled';
    else if (unsubscribed === true) flags[id] = 'unsubscribed';
  }
  return flags;
}

/** Disconnects some devices, and reads what the API shows of all that have MQTT; waits for a while until it is right. */
export async function collectDevices(tenants: Tenants, swarm: Swarm): Promise<History['devices']> {
  await swarm.disconnectSome();
  let devices: History['devices'] = [];
  const agree = async () => {
    devices = (
      await Promise.all(TENANT_NAMES.map((name) => readDevices(tenants, swarm, name)))
    ).flat();
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

async function readDevices(tenants: Tenants, swarm: Swarm, name: TenantName) {
  const devices: History['devices'][number][] = [];
  const { dev } = tenants[name];
  const connections = swarm.listConnections(name);
  const presence = await readPresence(
    dev,
    connections.map(({ token }) => token),
  );
  const online = new Map(presence.map((one) => [one.id, one.online]));
  await forEachAtOnce(connections, async ({ token, isConnected }) => {
    const info = await read<{ pending_notifications: unknown[] }>(dev, `/devices/${token}`);
    const pendingNotifications = info.json.pending_notifications.length;
    devices.push({
      ...{ token, isConnected, isOnline: online.get(token) ?? false, pendingNotifications },
    });
  });
  return devices;
}
