import { mayBeRepeated } from './duplicates.ts';
import {
  arrivalsAt,
  FLAGS,
  isPlain,
  type Prepared,
  type PushEnd,
  type SentPush,
} from './history.ts';

/** A time of MongoDB may be that of some milliseconds before. */
const MONGODB_LATE_MS = 100;

/** Checks whether pushes to a device may end as gone: not if its provider is the fallback of MQTT. */
export function mayBeGone({ goneOf }: Pick<Prepared, 'goneOf'>, token: string): boolean {
  const device = goneOf.get(token);
  return device !== undefined && device.hasMqtt !== true;
}

/**
 * Checks whether a push may end as gone at a device whose provider had accepted it: a fault has lost that outcome, and the
 * device was gone when the batch was repeated.
 */
export function mayBeGoneAfterArrival(history: Prepared, push: SentPush, token: string): boolean {
  if (!mayBeGone(history, token)) return false;
  const refusals = history.refusalsOf.get(token) ?? [];
  return (
    refusals.some(({ mark }) => mark === push.mark) ||
    arrivalsAt(history, push, token).some((arrival) => mayBeRepeated(history.faults, arrival))
  );
}

/** Finds recipients that ended as gone before their provider said so, and others after that. */
export function checkGone(history: Prepared): string[] {
  return history.accepted.flatMap(({ push, end }) =>
    push.audience.flatMap((token) => {
      const isGone = end?.recipients[token] === 'gone';
      const text = isGone ? describeEarly(history, end, token) : describeLate(history, push, token);
      return text === undefined ? [] : [`${push.mark} at ${token}: ${text}`];
    }),
  );
}

/** Describes why a recipient can't have ended as gone. */
function describeEarly(history: Prepared, end: PushEnd, token: string): string | undefined {
  if (!mayBeGone(history, token)) return 'gone, which the device is not';
  const refusedAtMs = (history.refusalsOf.get(token) ?? []).map(({ atMs }) => atMs);
  if (refusedAtMs.length === 0) return 'gone, and its provider has reported nothing';
  // All outcomes of a push are older than its end.
  const earlyMs = Math.min(...refusedAtMs) - (end.stored.finishedAtMs ?? Number.POSITIVE_INFINITY);
  return earlyMs > MONGODB_LATE_MS
    ? `gone ${earlyMs} ms before its provider reported it`
    : undefined;
}

/** Describes why a recipient that ended in another way has to be gone. */
function describeLate(history: Prepared, push: SentPush, token: string): string | undefined {
  const device = history.goneOf.get(token);
  // Without the response of the provider, a push may expire or be replaced.
  if (device === undefined || !mayBeGone(history, token) || !isPlain(push)) return undefined;
  const isLater = (push.tries[0]?.startedAtMs ?? 0) >= device.goneAtMs;
  const isRefused = history.refusalsOf.get(token)?.some(({ mark }) => mark === push.mark) ?? false;
  // One that the provider had accepted and that was repeated may have either end.
  const isAccepted = arrivalsAt(history, push, token).length > 0;
  return (isLater || isRefused) && !isAccepted ? 'not gone' : undefined;
}

/**
 * Finds devices without the flag that their provider's report leads to, and others that have one. Those with MQTT have
 * connected since their provider was last tried, which has ended their flag.
 */
export function checkFlags({ goneOf, flags }: Prepared): string[] {
  const missing = [...goneOf.values()].filter(
    ({ token, channel, hasMqtt }) => flags[token] !== (hasMqtt ? undefined : FLAGS[channel]),
  );
  const others = Object.entries(flags).filter(([token]) => !goneOf.has(token));
  return [
    ...missing.map(({ token, channel }) => `${token}, gone at ${channel}: ${flags[token]}`),
    ...others.map(([token, flag]) => `${token}, which is not gone: ${flag}`),
  ];
}

/** Finds requests to a provider for a device whose flag the API showed before the push was sent. */
export function checkFlagged(history: Prepared): string[] {
  const requests = [
    ...history.refusals,
    ...history.arrivals.filter(({ channel }) => channel !== 'mqtt'),
  ];
  return requests.flatMap(({ mark, token, channel }) => {
    const flaggedAtMs = history.goneOf.get(token)?.flaggedAtMs ?? Number.POSITIVE_INFINITY;
    const sentAtMs = history.byMark.get(mark)?.tries[0]?.startedAtMs ?? 0;
    return sentAtMs >= flaggedAtMs ? [`${mark} at ${token} over ${channel}`] : [];
  });
}
