import type { AppliedFault, Arrival, History } from './history.ts';

/** Duplicates that one device may get for each break: of its connection, or at its provider. */
const MAX_DUPLICATES_PER_BREAK = 16;
/**
 * Duplicates so long after the end of a fault follow from it. The claim of a killed worker ends after 6 s (BATCH_LEASE_MS),
 * and so does that of a worker whose outcomes were not saved in time. The batch then waits for another worker, and for a retry
 * of the request.
 */
const REPEATED_MS = 15_000;
/** A fault of one of these may leave requests to a provider without a saved outcome, and so may one of the provider itself. */
const BREAKING: readonly string[] = ['delivery-worker', 'mongodb'];
/** An outcome is saved within this time after the response, unless there is a fault. */
const SAVED_MS = 5_000;

/** Time in which duplicates follow from one fault, or from several that overlapped. Unix milliseconds. */
interface FaultWindow {
  fromMs: number;
  toMs: number;
}

/** Counts the arrivals beyond the first of each push at each device and over each channel: the fallback is no repetition. */
export function countDuplicates({ arrivals }: Pick<History, 'arrivals'>): number {
  const seen = new Set(arrivals.map(({ mark, token, channel }) => `${mark} ${token} ${channel}`));
  return arrivals.length - seen.size;
}

/** Counts the arrivals on a connection that had the push before: a break of the connection explains the others. */
export function countRepeats({ arrivals }: Pick<History, 'arrivals'>): number {
  return countDuplicates({
    arrivals: arrivals.map((one) => ({ ...one, token: `${one.token} ${one.connection}` })),
  });
}

/**
 * Lists the devices that got too many duplicates over one channel. Over MQTT the bound is for each connection of the device.
 * At a provider some faults are breaks: the bound is for the window of each of them, and for the time outside of all windows.
 * A duplicate in the windows of two faults counts in both.
 */
export function listExcessiveDuplicates({
  arrivals,
  faults,
}: Pick<History, 'arrivals' | 'faults'>): string[] {
  const ways = Map.groupBy(arrivals, ({ token, channel }) => `${token} over ${channel}`);
  return [...ways].flatMap(([way, ofWay]) => {
    const channel = ofWay[0]?.channel ?? '';
    const bounds =
      channel === 'mqtt'
        ? countOnConnections(ofWay)
        : countInWindows(ofWay, listWindows(faults, channel));
    return bounds
      .filter(({ count, most }) => count > most)
      .map(({ count, where }) => `${count} at ${way} ${where}`);
  });
}

/** Checks whether a fault may have lost the outcome of a request that a provider has accepted, so that it is repeated. */
export function mayBeRepeated(
  faults: readonly AppliedFault[],
  { channel, atMs }: Pick<Arrival, 'channel' | 'atMs'>,
): boolean {
  return listWindows(faults, channel).some(
    ({ fromMs, toMs }) => fromMs - SAVED_MS <= atMs && atMs <= toMs,
  );
}

interface Bound {
  count: number;
  most: number;
  where: string;
}

function countOnConnections(arrivals: readonly Arrival[]): Bound[] {
  const connections = arrivals.reduce((most, { connection }) => Math.max(most, connection), 1);
  const most = MAX_DUPLICATES_PER_BREAK * connections;
  return [{ count: countDuplicates({ arrivals }), most, where: `on ${connections} connections` }];
}

function countInWindows(arrivals: readonly Arrival[], windows: readonly FaultWindow[]): Bound[] {
  const seen = new Set<string>();
  const repeatedAtMs = arrivals
    .toSorted((a, b) => a.atMs - b.atMs)
    .flatMap(({ mark, atMs }) => (seen.size < seen.add(mark).size ? [] : [atMs]));
  const isWithin = (atMs: number) => (window: FaultWindow) =>
    window.fromMs <= atMs && atMs <= window.toMs;
  const bound = (where: string, isCounted: (atMs: number) => boolean): Bound => ({
    ...{ count: repeatedAtMs.filter(isCounted).length, most: MAX_DUPLICATES_PER_BREAK, where },
  });
  return [
    ...windows.map((window) =>
      bound(`from ${window.fromMs} to ${window.toMs}`, (atMs) => isWithin(atMs)(window)),
    ),
    bound('without a fault', (atMs) => !windows.some(isWithin(atMs))),
  ];
}

/** Returns the window of each fault of a channel; those that lasted at the same time share one. One not undone lasts on. */
function listWindows(faults: readonly AppliedFault[], channel: string): FaultWindow[] {
  const breaks = faults.filter(({ fault }) =>
    [...BREAKING, channel].includes(fault.split(' ').at(-1) ?? ''),
  );
  const windows: FaultWindow[] = [];
  for (const { atMs, healedAtMs = Number.POSITIVE_INFINITY } of breaks.toSorted(
    (a, b) => a.atMs - b.atMs,
  )) {
    const last = windows.at(-1);
    if (last !== undefined && atMs <= last.toMs - REPEATED_MS)
      last.toMs = Math.max(last.toMs, healedAtMs + REPEATED_MS);
    else windows.push({ fromMs: atMs, toMs: healedAtMs + REPEATED_MS });
  }
  return windows;
}
