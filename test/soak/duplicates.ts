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
  const seen = new Set(
    arrivals.map(
      ({ mark, token, channel, connection }) => `${mark} ${token} ${channel} ${connection}`,
    ),
  );
  return arrivals.length - seen.size;
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
  const wayOf = ({ token, channel }: Arrival) => `${token} over ${channel}`;
  return [...Map.groupBy(arrivals, wayOf)].flatMap(([way, ofWay]) =>
    ofWay[0]?.channel === 'mqtt'
      ? listOnConnections(way, ofWay)
      : listInWindows(way, ofWay, listFaultWindows(listBreaks(faults, ofWay[0]?.channel))),
  );
}

/** Checks whether a fault may have lost the outcome of a request that a provider has accepted, so that it is repeated. */
export function mayBeRepeated(
  faults: readonly AppliedFault[],
  { channel, atMs }: Pick<Arrival, 'channel' | 'atMs'>,
): boolean {
  return listFaultWindows(listBreaks(faults, channel)).some(
    ({ fromMs, toMs }) => fromMs - SAVED_MS <= atMs && atMs <= toMs,
  );
}

function listBreaks(faults: readonly AppliedFault[], channel = ''): AppliedFault[] {
  return faults.filter(({ fault }) =>
    [...BREAKING, channel].includes(fault.split(' ').at(-1) ?? ''),
  );
}

function listOnConnections(way: string, arrivals: readonly Arrival[]): string[] {
  const connections = arrivals.reduce((most, { connection }) => Math.max(most, connection), 1);
  const duplicates = countDuplicates({ arrivals });
  return duplicates > MAX_DUPLICATES_PER_BREAK * connections
    ? [`${duplicates} at ${way} on ${connections} connections`]
    : [];
}

function listInWindows(
  way: string,
  arrivals: readonly Arrival[],
  windows: readonly FaultWindow[],
): string[] {
  const duplicatesAtMs = findDuplicateTimes(arrivals);
  const isWithin = (atMs: number, { fromMs, toMs }: FaultWindow) => fromMs <= atMs && atMs <= toMs;
  const inWindows = windows.flatMap((window) => {
    const own = duplicatesAtMs.filter((atMs) => isWithin(atMs, window)).length;
    const { fromMs, toMs } = window;
    return own > MAX_DUPLICATES_PER_BREAK ? [`${own} at ${way} from ${fromMs} to ${toMs}`] : [];
  });
  const outside = duplicatesAtMs.filter(
    (atMs) => !windows.some((window) => isWithin(atMs, window)),
  ).length;
  return outside > MAX_DUPLICATES_PER_BREAK
    ? [...inWindows, `${outside} at ${way} without a fault`]
    : inWindows;
}

/** Returns when a device got each push again. */
function findDuplicateTimes(arrivals: readonly Arrival[]): number[] {
  const seen = new Set<string>();
  return arrivals
    .toSorted((a, b) => a.atMs - b.atMs)
    .flatMap(({ mark, atMs }) => {
      if (seen.has(mark)) return [atMs];
      seen.add(mark);
      return [];
    });
}

/** Returns the window of each fault; those that lasted at the same time share one. A fault that was not undone lasts on. */
function listFaultWindows(faults: readonly AppliedFault[]): FaultWindow[] {
  const windows: FaultWindow[] = [];
  for (const { atMs, healedAtMs = Number.POSITIVE_INFINITY } of faults.toSorted(
    (a, b) => a.atMs - b.atMs,
  )) {
    const last = windows.at(-1);
    if (last !== undefined && atMs <= last.toMs - REPEATED_MS)
      last.toMs = Math.max(last.toMs, healedAtMs + REPEATED_MS);
    else windows.push({ fromMs: atMs, toMs: healedAtMs + REPEATED_MS });
  }
  return windows;
}
