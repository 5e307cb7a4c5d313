import { LIMITS } from '../../packages/core/src/limits.ts';
import { lagAt } from '../support/observer-lag.ts';
import {
  checkFlagged,
  checkFlags,
  checkGone,
  mayBeGone,
  mayBeGoneAfterArrival,
} from './check-gone.ts';
import { countRepeats, listExcessiveDuplicates } from './duplicates.ts';
import {
  type Arrival,
  acceptedId,
  arrivalsAt,
  FLAGS,
  type History,
  isPlain,
  type Outcomes,
  type Prepared,
  type PushEnd,
  prepare,
  type Reports,
  type SentPush,
} from './history.ts';
import { TENANT_NAMES } from './plan.ts';

/** A guarantee that a run did not keep. */
export interface Violation {
  invariant: InvariantName;
  detail: string;
}

const MAX_DUPLICATE_PART = 0.001;
/** Nothing is sent so long after its expiry or deletion. */
const GRACE_MS = 1_000;
/** A worker asks for newer pushes of a collapse key at this interval, and sends the older one until it knows. */
const KNOWN_NEWER_MS = 250;
/** Requests may fail so long after the end of a fault; a supervisor waits up to ten seconds before it starts a process again. */
const RECOVERED_MS = 12_000;
const MAX_MEMORY_GROWTH = 1.2;

const INVARIANTS = {
  'one id for each key': checkIds,
  'each accepted recipient has one end': checkSums,
  'nothing is lost': checkLost,
  'few duplicates': checkDuplicates,
  'nothing is early': checkEarly,
  'nothing is sent after its expiry': (history) => listLate(history, expiryOf),
  'nothing is sent after its deletion': (history) =>
    listLate(history, ({ deletion }) => deletion?.deletedAtMs ?? Number.POSITIVE_INFINITY),
  'nothing is sent that was refused': checkRefused,
  'an unknown push is there whole or not at all': checkUnknown,
  'a device is gone when its provider says so, and not before': checkGone,
  'a device that is gone has its flag, and no other': checkFlags,
  'nothing is sent to a device with a flag': checkFlagged,
  'the newest push of a collapse key is the last': checkCollapse,
  'nothing is left at rest': ({ left }) =>
    Object.entries(left).flatMap(([what, count]) => (count > 0 ? [`${what}: ${count}`] : [])),
  'the status agrees with the devices': checkStatus,
  'no valid request is refused': checkRefusals,
  'requests fail only because of faults': checkFailures,
  'no device gets the push of another': ({ arrivals, byMark }) =>
    arrivals
      .filter(({ mark, token }) => byMark.get(mark)?.audience.includes(token) !== true)
      .map(({ mark, token }) => `${mark} at ${token}`),
  'presence agrees with the devices': checkDevices,
  'a tenant is shown its own pushes alone': checkShown,
  'each event is reported, and no other': checkReports,
  'each fault is applied': ({ failedFaults }) =>
    failedFaults.map(({ fault, error }) => `${fault}: ${error}`),
  'no process ends by itself': checkDeaths,
  'memory comes back': ({ memory }) =>
    memory
      .filter(({ before, after }) => after > before * MAX_MEMORY_GROWTH)
      .map(({ service, before, after }) => `${service}: ${before} to ${after} bytes`),
} satisfies Record<string, (history: Prepared) => string[]>;
export type InvariantName = keyof typeof INVARIANTS;
export const INVARIANT_NAMES = Object.keys(INVARIANTS) as InvariantName[];

/** Checks all invariants of a run. */
export function check(history: History): Violation[] {
  const prepared = prepare(history);
  return INVARIANT_NAMES.flatMap((invariant) =>
    INVARIANTS[invariant](prepared).map((detail) => ({ invariant, detail })),
  );
}

/**
 * Returns when a push may at the latest have expired: its acceptance is before the response. Without one, the database has its
 * time. One with a time to live of 0 may be sent for some seconds.
 */
function expiryOf({ tries, stored, dueAtMs, ttlSeconds }: SentPush): number {
  const respondedAt = tries.find(({ end }) => end === 'ok')?.endedAtMs;
  const acceptedAt = respondedAt ?? stored?.[0]?.acceptedAtMs ?? Number.POSITIVE_INFINITY;
  return (dueAtMs ?? acceptedAt) + (ttlSeconds || LIMITS.sendNowSeconds) * 1_000;
}

function checkIds({ pushes }: Prepared): string[] {
  return pushes.flatMap(({ mark, tries, stored = [] }) => {
    const ids = new Set([...tries.flatMap(({ id }) => id ?? []), ...stored.map(({ id }) => id)]);
    return ids.size > 1 ? [`${mark} has the ids ${[...ids].join(', ')}`] : [];
  });
}

function checkSums(history: Prepared): string[] {
  return history.accepted.flatMap(({ push, id, end }) => {
    if (end === undefined) return [`${push.mark}: the push ${id} is missing`];
    const sum = Object.values(end.counts).reduce((total, count) => total + count, 0);
    const isPending = (end.counts.pending ?? 0) > 0;
    const counts = JSON.stringify(end.counts);
    if (sum !== push.audience.length)
      return [`${push.mark}: ${counts} for ${push.audience.length} recipients`];
    return isPending ? [`${push.mark} is pending: ${counts}`] : [];
  });
}

/** Finds accepted recipients whom a push has not reached, for no reason that the system may have. */
function checkLost(history: Prepared): string[] {
  return history.accepted.flatMap(({ push, id, end }) =>
    push.audience.flatMap((token) => {
      if (arrivalsAt(history, push, token).length > 0) return [];
      const outcome = end?.recipients[token] ?? 'no outcome';
      return mayHaveNotArrived(history, { push, id, token, outcome })
        ? []
        : [`${push.mark} (${id}) at ${token}: ${outcome}`];
    }),
  );
}

function mayHaveNotArrived(
  history: Prepared,
  { push, id, token, outcome }: { push: SentPush; id: string; token: string; outcome: string },
): boolean {
  if (outcome === 'deleted') return push.deletion !== undefined;
  if (outcome === 'gone') return mayBeGone(history, token);
  if (outcome === 'expired') return expiryOf(push) <= history.settledAtMs;
  if (outcome !== 'superseded') return false;
  return history.pushes.some(
    (other) =>
      push.collapse !== undefined &&
      other.collapse === push.collapse &&
      other.audience.includes(token) &&
      (acceptedId(other) ?? id) > id,
  );
}

function checkDuplicates(history: Prepared): string[] {
  const recipients = history.accepted.reduce((sum, { push }) => sum + push.audience.length, 0);
  const duplicates = countRepeats(history);
  const excessive = listExcessiveDuplicates(history);
  return duplicates > Math.max(1, recipients * MAX_DUPLICATE_PART)
    ? [`${duplicates} of ${recipients} recipients`, ...excessive]
    : excessive;
}

/** Lists arrivals for which a limit of their push is broken. */
function listArrivals(
  history: Prepared,
  describe: (arrival: Arrival, push: SentPush) => string | undefined,
): string[] {
  return history.arrivals.flatMap((arrival) => {
    const push = history.byMark.get(arrival.mark);
    const text = push && describe(arrival, push);
    return text === undefined ? [] : [`${arrival.mark} at ${arrival.token}: ${text}`];
  });
}

function checkEarly(history: Prepared): string[] {
  return listArrivals(history, ({ atMs }, { dueAtMs = 0 }) =>
    atMs < dueAtMs ? `${dueAtMs - atMs} ms early` : undefined,
  );
}

/** Lists arrivals so long after the end of a push that the observer's delay does not explain it. */
function listLate(history: Prepared, endOf: (push: SentPush) => number): string[] {
  return listArrivals(history, ({ atMs }, push) => {
    const lateMs = atMs - endOf(push);
    return lateMs > GRACE_MS + lagAt(history, atMs) ? `${lateMs} ms late` : undefined;
  });
}

/** Finds arrivals of pushes that were refused, or had to be, and invalid requests that were accepted. */
function checkRefused(history: Prepared): string[] {
  const isRefused = ({ isInvalid, tries }: SentPush) =>
    isInvalid === true || (tries.length > 0 && tries.every(({ end }) => end === 'fail'));
  return [
    ...history.pushes
      .filter(({ isInvalid, tries }) => isInvalid === true && tries.some(({ end }) => end === 'ok'))
      .map(({ mark }) => `${mark}, which is invalid, was accepted`),
    ...history.pushes
      .filter((push) => isRefused(push) && (push.stored ?? []).length > 0)
      .map(({ mark }) => `${mark} was refused, and is in the database`),
    ...listArrivals(history, (_, push) => (isRefused(push) ? 'was refused' : undefined)),
  ];
}

/** Finds pushes without a response that have come to some of their devices alone, or that are not in the database. */
function checkUnknown(history: Prepared): string[] {
  return history.pushes.flatMap((push) => {
    const { mark, tries, audience } = push;
    if (tries.some(({ end }) => end === 'ok') || tries.every(({ end }) => end === 'fail'))
      return [];
    const missed = audience.filter((token) => arrivalsAt(history, push, token).length === 0);
    const reached = `at ${audience.length - missed.length} of ${audience.length}`;
    if (acceptedId(push) === undefined)
      return missed.length === audience.length ? [] : [`${mark} is not stored, ${reached}`];
    return isPlain(push) && missed.some((token) => !mayBeGone(history, token))
      ? [`${mark} ${reached}`]
      : [];
  });
}

function checkCollapse(history: Prepared): string[] {
  const collapsing = history.accepted.filter(({ push }) => push.collapse !== undefined);
  return [...Map.groupBy(collapsing, ({ push }) => push.collapse)].flatMap(([key, pushes]) => {
    const tokens = new Set(pushes.flatMap(({ push }) => push.audience));
    return [...tokens].flatMap((token) => {
      const ofToken = pushes.filter(({ push }) => push.audience.includes(token));
      const newest = ofToken.toSorted((a, b) => (a.id < b.id ? 1 : -1))[0];
      const lastAt = (push: SentPush) => arrivalsAt(history, push, token).at(-1)?.atMs ?? 0;
      const first = newest && arrivalsAt(history, newest.push, token)[0];
      if (newest === undefined || first === undefined) return [];
      const isLate = (atMs: number) => atMs - first.atMs > KNOWN_NEWER_MS + lagAt(history, atMs);
      const later = ofToken.filter(({ push }) => push !== newest.push && isLate(lastAt(push)));
      return later.map(({ push }) => `${push.mark} at ${token} after ${newest.push.mark} (${key})`);
    });
  });
}

/** Compares counts, recipients one by one and pending devices with each other and with what arrived. */
function checkStatus(history: Prepared): string[] {
  return history.accepted.flatMap(({ push, end }) => {
    if (end === undefined) return [];
    const outcomes = push.audience.map((token) => end.recipients[token] ?? 'none');
    const counted = countValues(Object.values(end.recipients));
    const violations = [
      ...listForeignRecipients(push, end),
      ...compareOutcomes(push, end, { ...end.stored, where: 'stored' }),
      ...compareSample(push, end),
    ];
    if (formatCounts(counted) !== formatCounts(end.counts))
      violations.push(`${push.mark}: ${formatCounts(end.counts)} but ${formatCounts(counted)}`);
    for (const [index, token] of push.audience.entries()) {
      const arrivals = arrivalsAt(history, push, token);
      const isReached = ['delivered', 'sent'].includes(outcomes[index] ?? '');
      const isDelivered = outcomes[index] === 'delivered';
      // A receipt is the device's own; a provider has none.
      if (isReached && !arrivals.some(({ channel }) => (channel === 'mqtt') === isDelivered))
        violations.push(`${push.mark}: ${outcomes[index]} at ${token}, which has not got it`);
      const mayBeUnreached =
        outcomes[index] === 'gone' && mayBeGoneAfterArrival(history, push, token);
      if (isPlain(push) && !isReached && !mayBeUnreached && arrivals.length > 0)
        violations.push(`${push.mark}: ${outcomes[index]} at ${token}, which has got it`);
    }
    return violations;
  });
}

/** Finds recipients that the push was not for. */
function listForeignRecipients({ mark, audience }: SentPush, { recipients }: Outcomes): string[] {
  const others = Object.keys(recipients).filter((token) => !audience.includes(token));
  return others.map((token) => `${mark}: ${token} is a recipient`);
}

/** Finds differences between the outcomes of a push and those from another source. */
function compareOutcomes(
  { mark, audience }: SentPush,
  { counts, recipients }: Outcomes,
  other: Outcomes & { where: string },
): string[] {
  const different = audience.filter((token) => recipients[token] !== other.recipients[token]);
  const { where } = other;
  return [
    ...different.map(
      (token) =>
        `${mark}: ${recipients[token]} at ${token}, but ${other.recipients[token]} is ${where}`,
    ),
    ...(formatCounts(counts) === formatCounts(other.counts)
      ? []
      : [`${mark}: ${formatCounts(counts)}, but ${formatCounts(other.counts)} is ${where}`]),
  ];
}

/** Compares what other routes of the API show of a push. */
function compareSample(push: SentPush, end: PushEnd): string[] {
  if (end.sample === undefined) return [];
  const { pendingDevices = [] } = end.sample;
  return [
    ...listForeignRecipients(push, end.sample),
    ...compareOutcomes(push, end, { ...end.sample, where: 'in the sample' }),
    ...pendingDevices.map((token) => `${push.mark}: pending at ${token}`),
  ];
}

function countValues(values: readonly string[]): Record<string, number> {
  const groups = Map.groupBy(values, (value) => value);
  return Object.fromEntries([...groups].map(([value, all]) => [value, all.length]));
}

function formatCounts(counts: Readonly<Record<string, number>>): string {
  return JSON.stringify(Object.entries(counts).sort());
}

/** Finds valid requests to send that the API has refused, and right credentials of devices that a gateway has refused. */
function checkRefusals({ pushes, refusedConnects }: Prepared): string[] {
  const valid = pushes.filter(({ isInvalid }) => isInvalid !== true);
  const requests = valid.flatMap(({ mark, tries, dueAtMs }) =>
    tries
      // One that is repeated for long may be scheduled for a time that has passed.
      .filter(
        ({ end, endedAtMs }) => end === 'fail' && endedAtMs < (dueAtMs ?? Number.POSITIVE_INFINITY),
      )
      .map(({ status }) => `${mark}: ${status}`),
  );
  return [...requests, ...refusedConnects.map(({ token, code }) => `${token}: CONNACK ${code}`)];
}

/** Finds requests to send that failed while there was no fault, nor one shortly before. */
function checkFailures({ pushes, faults }: Prepared): string[] {
  const isExplained = ({ startedAtMs, endedAtMs }: SentPush['tries'][number]): boolean =>
    faults.some(
      ({ atMs, healedAtMs = Number.POSITIVE_INFINITY }) =>
        atMs <= endedAtMs && startedAtMs <= healedAtMs + RECOVERED_MS,
    );
  return pushes.flatMap(({ mark, tries }) =>
    tries
      .filter((one) => one.end === 'unknown' && !isExplained(one))
      .map(({ status }) => `${mark}: ${status ?? 'no response'}`),
  );
}

function checkDevices({ devices }: Prepared): string[] {
  return devices.flatMap(({ token, isConnected, isOnline, pendingNotifications }) => [
    ...(isConnected === isOnline ? [] : [`${token}: online ${isOnline}, not ${isConnected}`]),
    ...(pendingNotifications === 0 ? [] : [`${token}: ${pendingNotifications} pending`]),
  ]);
}

function checkShown(history: Prepared): string[] {
  const accepted = history.accepted;
  const ownerOf = new Map(accepted.map(({ push, id }) => [id, push.tenant]));
  const shown = { a: new Set(history.shown.a), b: new Set(history.shown.b) };
  const foreign = TENANT_NAMES.flatMap((name) =>
    [...shown[name]]
      .filter((id) => (ownerOf.get(id) ?? name) !== name)
      .map((id) => `${id} is shown to ${name}`),
  );
  const missing = accepted.filter(({ push, id }) => !shown[push.tenant].has(id));
  return [...foreign, ...missing.map(({ push, id }) => `${id} is not shown to ${push.tenant}`)];
}

/** Finds ends that are not the run's: of a process that has ended more often than it was killed, one is somebody else's. */
function checkDeaths({ deaths, kills }: Prepared): string[] {
  return [...Map.groupBy(deaths, (death) => death.process)].flatMap(([name, ends]) => {
    const others = ends.filter(({ reason }) => reason !== 'SIGKILL');
    const killed = ends.length - others.length;
    const ownKills = kills.filter((kill) => kill === name).length;
    const unexplained = killed > ownKills ? [`${name}: ${killed} SIGKILL, ${ownKills} here`] : [];
    return [...others.map(({ reason }) => `${name}: ${reason}`), ...unexplained];
  });
}

/** Lists the events of a push that are not among those reported so far. */
export function listUnreported(
  { outcomes, finished }: Pick<Reports, 'outcomes' | 'finished'>,
  push: SentPush,
  end: PushEnd | undefined,
): string[] {
  const id = acceptedId(push) ?? '';
  const recipients = push.audience.filter(
    (token) => !outcomes[id]?.[token]?.includes(end?.recipients[token] ?? ''),
  );
  const isEndMissing = end?.stored.finishedAtMs !== undefined && !finished.includes(id);
  return [
    ...recipients.map((token) => `${push.mark} (${id}) at ${token}`),
    ...(isEndMissing ? [`the end of ${push.mark} (${id})`] : []),
  ];
}

/** Finds events that were not reported to the tenant's webhook, and those that are not the tenant's. */
function checkReports({ reports, accepted, gone, goneOf }: Prepared): string[] {
  const { tenant, sinceMs, outcomes, finished, wrongRequests } = reports;
  const own = accepted.filter(({ push }) => push.tenant === tenant);
  const ids = new Set(own.map(({ id }) => id));
  const missingFlags = gone.filter(
    ({ token, channel, ...one }) =>
      one.tenant === tenant &&
      one.startedAtMs >= sinceMs &&
      !reports.flags[token]?.includes(FLAGS[channel]),
  );
  return [
    ...own.flatMap(({ push, end }) =>
      (push.tries[0]?.startedAtMs ?? 0) < sinceMs ? [] : listUnreported(reports, push, end),
    ),
    ...[...new Set([...Object.keys(outcomes), ...finished])]
      .filter((id) => !ids.has(id))
      .map((id) => `${id}, which is no push of ${tenant}`),
    ...missingFlags.map(({ token, channel }) => `${token}, gone at ${channel}`),
    ...Object.entries(reports.flags).flatMap(([token, reported]) => {
      const channel = goneOf.get(token)?.channel;
      return reported
        .filter((flag) => channel === undefined || flag !== FLAGS[channel])
        .map((flag) => `${token}: ${flag}`);
    }),
    ...(wrongRequests === 0 ? [] : [`${wrongRequests} wrong requests`]),
  ];
}
