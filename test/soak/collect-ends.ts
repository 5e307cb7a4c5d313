import type { TestTenant } from '../support/api/tenants.ts';
import type { WebhookReceiver } from '../support/api/webhook-receiver.ts';
import type { TestMongo } from '../support/mongo.ts';
import { callApi } from '../support/stack/call-api.ts';
import { until } from '../support/until.ts';
import { FLAGS } from './check-gone.ts';
import { listUnreported } from './check-reports.ts';
import { readFlags } from './gone.ts';
import type {
  DeviceEnd,
  GoneDevice,
  History,
  Outcomes,
  PushEnd,
  PushSample,
  Reports,
  SentPush,
} from './history.ts';
import { TENANT_NAMES, type TenantName } from './plan.ts';
import { acceptedId } from './prepare.ts';
import { createRandom } from './random.ts';
import { exportOf, forEachAtOnce, read, readExport, readRecipients } from './read-api.ts';
import { readStored } from './read-stored.ts';
import type { Swarm } from './swarm.ts';
import type { System } from './system.ts';

/** Pushes that are read over all routes of the API. */
const SAMPLED_PUSHES = 5_000;
/** Exports of an app at a time. It may have two in progress, and one that has ended counts until that is recorded. */
const EXPORTS_AT_ONCE = 1;
/** How long presence and counters may take to agree after all faults. */
const AGREE_MS = 60_000;

/** Longest time until the last ends are reported to the webhook. */
const REPORT_MS = 120_000;

/** A tenant's webhook. */
export interface Reporting extends Pick<Reports, 'tenant' | 'sinceMs'> {
  receiver: WebhookReceiver;
}

type Tenants = Record<TenantName, Pick<TestTenant, 'dev'>>;

/**
 * Reads how each accepted push has ended: its counts from the export of its tenant, its recipients one by one over the API, and
 * both from the database. Some pushes, which the seed determines, are also read over the other routes.
 */
export async function collectEnds(
  source: Pick<System, 'store'> & Pick<TestMongo, 'db'>,
  tenants: Tenants,
  { pushes, seed }: Pick<History, 'pushes' | 'seed'>,
): Promise<Record<string, PushEnd>> {
  const accepted = new Map(
    pushes.flatMap((push) => {
      const id = acceptedId(push);
      return id === undefined ? [] : [[id, push] as const];
    }),
  );
  const audiences = new Map([...accepted].map(([id, { audience }]) => [id, audience]));
  const sampledIds = createRandom(seed).sample([...accepted.keys()], SAMPLED_PUSHES);
  const readOverApi = async () => {
    const exported = await readExported(tenants, accepted);
    // The export counts only the recipients of a push that has ended.
    const uncounted = [...exported.keys()].filter((id) => exported.get(id) === undefined);
    const samples = await readSamples(tenants, accepted, new Set([...sampledIds, ...uncounted]));
    return { exported, samples };
  };
  // Nothing changes any more, so that the readings need no order.
  const [{ exported, samples }, recipients, stored] = await Promise.all([
    readOverApi(),
    readAllRecipients(tenants, accepted),
    readStored(source, audiences),
  ]);
  return Object.fromEntries(
    [...exported].map(([id, exportedCounts]) => {
      const sample = samples.get(id);
      const end: PushEnd = {
        counts: exportedCounts ?? sample?.counts ?? {},
        recipients: recipients.get(id) ?? {},
        stored: stored.get(id) ?? { counts: {}, recipients: {} },
        ...(sample && { sample }),
      };
      return [id, end];
    }),
  );
}

/** Accepted pushes by id. */
type Accepted = ReadonlyMap<string, SentPush>;

/** Reads the counts of all exported pushes of the tenants that sent them; undefined for one that has not ended. */
async function readExported(
  tenants: Tenants,
  accepted: Accepted,
): Promise<Map<string, Outcomes['counts'] | undefined>> {
  const exported = new Map<string, Outcomes['counts'] | undefined>();
  const readOf = (name: TenantName) =>
    readExport<{ id: string; outcomes?: Record<string, number> }>(
      exportOf(tenants[name].dev, 'pushes'),
      ({ id }) => id,
      ({ id, outcomes }) => {
        if (accepted.get(id)?.tenant === name) exported.set(id, outcomes);
      },
    );
  await Promise.all(TENANT_NAMES.map(readOf));
  return exported;
}

async function readAllRecipients(
  tenants: Tenants,
  accepted: Accepted,
): Promise<Map<string, Outcomes['recipients']>> {
  const recipients = new Map<string, Outcomes['recipients']>();
  await forEachAtOnce([...accepted], async ([id, { tenant }]) => {
    recipients.set(id, await readRecipients(tenants[tenant].dev, id));
  });
  return recipients;
}

/** Reads pushes over the routes that show one each, and their recipients from the export. */
async function readSamples(
  tenants: Tenants,
  accepted: Accepted,
  ids: ReadonlySet<string>,
): Promise<Map<string, PushSample>> {
  const samples = new Map<string, PushSample>();
  const byTenant = Map.groupBy(ids, (id) => accepted.get(id)?.tenant);
  const readOf = async (name: TenantName) => {
    const { dev } = tenants[name];
    const task = async (id: string) => {
      const [counted, shown, recipients] = await Promise.all([
        read<{ outcomes?: Record<string, number> }>(dev, `/pushes/${id}/outcomes`),
        read<{ push?: { pending_devices: string[] } }>(dev, `/pushes/${id}`),
        readExportedRecipients(dev, id),
      ]);
      const pendingDevices = shown.json.push?.pending_devices;
      const counts = counted.json.outcomes ?? {};
      samples.set(id, { counts, recipients, ...(pendingDevices && { pendingDevices }) });
    };
    await forEachAtOnce(byTenant.get(name) ?? [], task, EXPORTS_AT_ONCE);
  };
  await Promise.all(TENANT_NAMES.map(readOf));
  return samples;
}

async function readExportedRecipients(
  dev: TestTenant['dev'],
  id: string,
): Promise<Outcomes['recipients']> {
  const recipients: Record<string, string> = {};
  await readExport<{ token: string; outcome: string }>(
    exportOf(dev, 'recipients', { push: id }),
    ({ token }) => token,
    ({ token, outcome }) => {
      recipients[token] = outcome;
    },
  );
  return recipients;
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

/** Reads the events that a webhook has received; waits for a while until they contain each end, and each flag. */
export async function collectReports(
  { receiver, tenant, sinceMs }: Reporting,
  { pushes, gone }: { pushes: readonly SentPush[]; gone: readonly GoneDevice[] },
  ends: History['ends'],
): Promise<Reports> {
  const expected = pushes.flatMap((push) => {
    const id = acceptedId(push);
    return push.tenant !== tenant || id === undefined ? [] : [{ push, end: ends[id] }];
  });
  const flagged = gone.filter((device) => device.tenant === tenant);
  const readAll = () => ({ outcomes: readOutcomes(receiver), ...readOtherEvents(receiver) });
  let read = readAll();
  const areReported = () => {
    read = readAll();
    return (
      expected.every(({ push, end }) => listUnreported(read, push, end).length === 0) &&
      flagged.every(({ token, channel }) => read.flags[token]?.includes(FLAGS[channel]))
    );
  };
  await until(areReported, { timeoutMs: REPORT_MS, everyMs: 2_000 }).catch(() => undefined);
  return { tenant, sinceMs, ...read, wrongRequests: receiver.forged() + receiver.foreign() };
}

/** Reads which pushes have ended, and which devices got a flag. */
function readOtherEvents({
  requests,
}: Pick<WebhookReceiver, 'requests'>): Pick<Reports, 'finished' | 'flags'> {
  const events = requests().flatMap((request) => request.events);
  const ended = events.filter(({ type }) => type === 'push.finished');
  const flags: Record<string, string[]> = {};
  for (const { type, data } of events) {
    const [, flag] = /^device\.(uninstalled|unsubscribed)$/.exec(type) ?? [];
    const token = String(data.token);
    if (flag !== undefined) flags[token] = [...new Set([...(flags[token] ?? []), flag])];
  }
  return { finished: [...new Set(ended.map(({ data }) => String(data.push)))], flags };
}

/** Reads the outcomes of recipients; those that were not final count unless final ones have followed. */
function readOutcomes({ requests }: Pick<WebhookReceiver, 'requests'>): Reports['outcomes'] {
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

/** Reads which devices the API shows as gone. */
export async function collectFlags(
  tenants: Tenants,
  { tokens }: Pick<Swarm, 'tokens'>,
): Promise<History['flags']> {
  const flags = await Promise.all(
    TENANT_NAMES.map((name) => readFlags(tenants[name].dev, tokens[name])),
  );
  return Object.fromEntries(flags.flatMap((one) => Object.entries(one)));
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
