import { LIMITS } from '../../packages/core/src/limits.ts';
import { lagAt } from '../support/observer-lag.ts';
import {
  checkFlagged,
  checkFlags,
  checkGone,
  mayBeGone,
  mayBeGoneAfterArrival,
} from './check-gone.ts';
import { checkReports } from './check-reports.ts';
import { countRepeats, listExcessiveDuplicates } from './duplicates.ts';
import type { Arrival, History, Outcomes, PushEnd, PushSample, SentPush, Try } from './history.ts';
import { TENANT_NAMES } from './plan.ts';
import {
  acceptedId,
  arrivalsAt,
  isPlain,
  listAccepted,
  type Prepared,
  prepare,
} from './prepare.ts';

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

type Check = (history: Prepared) => string[];

const INVARIANTS = {
  'one id for each key': checkIds,
  'each accepted recipient has one end': checkSums,
  'nothing is lost': checkLost,
  'few duplicates': checkDuplicates,
  'nothing is early': checkEarly,
  'nothing is sent after its expiry': checkExpired,
  'nothing is sent after its deletion': checkDeleted,
  'nothing is sent that was refused': checkRefused,
  'an unknown push is there whole or not at all': checkUnknown,
  'a device is gone when its provider says so, and not before': checkGone,
  'a device that is gone has its flag, and no other': checkFlags,
  'nothing is sent to a device with a flag': checkFlagged,
  'the newest push of a collapse key is the last': checkCollapse,
  'nothing is left at rest': checkRest,
  'the status agrees with the devices': checkStatus,
  'no valid request is refused': checkRefusals,
  'requests fail only because of faults': checkFailures,
  'no device gets the push of another': checkForeign,
  'presence agrees with the devices': checkDevices,
  'a tenant is shown its own pushes alone': checkShown,
  'each event is reported, and no other': checkReports,
  'each fault is applied': checkFaults,
  'no process ends by itself': checkDeaths,
  'memory comes back': checkMemory,
} satisfies Record<string, Check>;
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
  return listAccepted(history).flatMap(({ push, id, end }) => {
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
  return listAccepted(history).flatMap(({ push, id, end }) =>
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
  if (outcome === 'gone') return history.removed.includes(token) || mayBeGone(history, token);
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
  const recipients = listAccepted(history).reduce((sum, { push }) => sum + push.audience.length, 0);
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

function checkExpired(history: Prepared): string[] {
  return listArrivals(history, ({ atMs }, push) => {
    const lateMs = atMs - expiryOf(push);
    return lateMs > GRACE_MS + lagAt(history, atMs) ? `${lateMs} ms late` : undefined;
  });
}

function checkDeleted(history: Prepared): string[] {
  return listArrivals(history, ({ atMs }, { deletion }) => {
    const lateMs = atMs - (deletion?.deletedAtMs ?? Number.POSITIVE_INFINITY);
    return lateMs > GRACE_MS + lagAt(history, atMs) ? `${lateMs} ms late` : undefined;
  });
}

/** Finds arrivals of pushes that were refused, or had to be, and invalid requests that were accepted. */
function checkRefused(history: Prepared): string[] {
  const isRefused = ({ isInvalid, tries }: SentPush) =>
    isInvalid === true || (tries.length > 0 && tries.every(({ end }) => end === 'fail'));
  const accepted = history.pushes.filter(
    ({ isInvalid, tries }) => isInvalid === true && tries.some(({ end }) => end === 'ok'),
  );
  const stored = history.pushes.filter(
    (push) => isRefused(push) && push.stored !== undefined && push.stored.length > 0,
  );
  return [
    ...accepted.map(({ mark }) => `${mark}, which is invalid, was accepted`),
    ...stored.map(({ mark }) => `${mark} was refused, and is in the database`),
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
  const collapsing = listAccepted(history).filter(({ push }) => push.collapse !== undefined);
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

function checkRest({ left }: Prepared): string[] {
  return Object.entries(left).flatMap(([what, count]) => (count > 0 ? [`${what}: ${count}`] : []));
}

/** Compares counts, recipients one by one and pending devices with each other and with what arrived. */
function checkStatus(history: Prepared): string[] {
  return listAccepted(history).flatMap(({ push, end }) => {
    if (end === undefined) return [];
    const outcomes = push.audience.map((token) => end.recipients[token] ?? 'none');
    const counted = countValues(Object.values(end.recipients));
    const violations = [
      ...listForeignRecipients(push, end),
      ...compareOutcomes(push, end, { ...end.stored, where: 'stored' }),
      ...(end.sample === undefined ? [] : compareSample(push, end, end.sample)),
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
function compareSample(push: SentPush, end: PushEnd, sample: PushSample): string[] {
  const pending = sample.pendingDevices ?? [];
  return [
    ...listForeignRecipients(push, sample),
    ...compareOutcomes(push, end, { ...sample, where: 'in the sample' }),
    ...(pending.length > 0 ? [`${push.mark}: pending at ${pending.join(', ')}`] : []),
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
  const isExplained = ({ startedAtMs, endedAtMs }: Try): boolean =>
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

function checkForeign(history: Prepared): string[] {
  return history.arrivals.flatMap(({ mark, token }) => {
    const isRecipient = history.byMark.get(mark)?.audience.includes(token) ?? false;
    return isRecipient ? [] : [`${mark} at ${token}`];
  });
}

function checkDevices({ devices }: Prepared): string[] {
  return devices.flatMap(({ token, isConnected, isOnline, pendingNotifications }) => [
    ...(isConnected === isOnline ? [] : [`${token}: online ${isOnline}, not ${isConnected}`]),
    ...(pendingNotifications === 0 ? [] : [`${token}: ${pendingNotifications} pending`]),
  ]);
}

function checkShown(history: Prepared): string[] {
  const accepted = listAccepted(history);
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

function checkFaults({ failedFaults }: Prepared): string[] {
  return failedFaults.map(({ fault, error }) => `${fault}: ${error}`);
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

function checkMemory({ memory }: Prepared): string[] {
  return memory.flatMap(({ service, before, after }) =>
    after > before * MAX_MEMORY_GROWTH ? [`${service}: ${before} to ${after} bytes`] : [],
  );
}
