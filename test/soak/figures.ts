import type { AppliedFault, Arrival, History, SentPush, Try } from './history.ts';

/** Faults are apart if one begins so long after the other has ended, and requests to send have recovered from that. */
const RECOVERED_MS = 5_000;
/** A fault without a duration is about the pushes that were accepted so long before it and after it. */
const SHORT_FAULT_MS = 1_000;
/** Parts of a run between which memory is compared: after the first growth, and at the end. */
const EARLY = { from: 1 / 6, to: 1 / 2 };
const LATE = { from: 5 / 6, to: 1 };

/** A fault, and times from its end, in milliseconds. */
export interface Recovery {
  fault: string;
  /**
   * Another fault lasted at the same time, or until shortly before, or began shortly after, or requests still failed because
   * of it: the times are those from both.
   */
  isOverlapping: boolean;
  /** Until requests to send got 200 again and none failed any more; absent if that was not before the next fault. */
  sendsMs?: number;
  /** Until the last first arrival at a provider's devices of the pushes that were accepted during the fault. */
  arrivalsMs?: number;
}

/** A fault, and until when requests to send failed because of it: if until the next fault, its beginning. */
type MeasuredFault = AppliedFault & { sendsMs?: number; recoveredAtMs: number };

/** Computes the recovery from each fault. Sends are of all pushes, arrivals of those that are neither late nor ended on purpose. */
export function findRecoveries(
  history: Pick<History, 'pushes' | 'arrivals' | 'settledAtMs'>,
  faults: readonly AppliedFault[],
): Recovery[] {
  const arrivedAt = findArrivalTimes(history.arrivals);
  const tries = history.pushes
    .flatMap((push) => push.tries)
    .toSorted((a, b) => a.endedAtMs - b.endedAtMs);
  const measured = faults.map((fault, index) => {
    const { healedAtMs = Number.POSITIVE_INFINITY } = fault;
    const next = faults.slice(index + 1).find((other) => other.atMs >= healedAtMs);
    return measureSends(tries, fault, next?.atMs ?? history.settledAtMs);
  });
  return measured.flatMap(({ fault, atMs, healedAtMs, sendsMs }, index): Recovery[] => {
    if (healedAtMs === undefined) return [];
    const toMs = Math.max(healedAtMs, atMs + SHORT_FAULT_MS);
    const lastMs = history.pushes
      .filter((push) => isAcceptedWithin(push, atMs - SHORT_FAULT_MS, toMs))
      .flatMap(({ mark }) => arrivedAt.get(mark) ?? [])
      .reduce((last, at) => Math.max(last, at), Number.NEGATIVE_INFINITY);
    const isOverlapping = measured.some(
      (other, n) => n !== index && overlaps(other, { atMs, healedAtMs }),
    );
    return [
      {
        ...{ fault, isOverlapping },
        ...(sendsMs !== undefined && { sendsMs }),
        ...(Number.isFinite(lastMs) && {
          arrivalsMs: Math.round(Math.max(0, lastMs - healedAtMs)),
        }),
      },
    ];
  });
}

/** Measures until when requests failed that ended after a fault and before the next one. `tries` are in order of their ends. */
function measureSends(tries: readonly Try[], fault: AppliedFault, untilMs: number): MeasuredFault {
  const { healedAtMs } = fault;
  if (healedAtMs === undefined) return { ...fault, recoveredAtMs: Number.POSITIVE_INFINITY };
  const ended = tries.filter(({ endedAtMs }) => endedAtMs >= healedAtMs && endedAtMs < untilMs);
  const lastFailed = ended.findLastIndex(({ end }) => end === 'unknown');
  const answeredAtMs = ended.slice(lastFailed + 1).find(({ end }) => end === 'ok')?.endedAtMs;
  const recoveredAtMs = lastFailed < 0 ? healedAtMs : answeredAtMs;
  return recoveredAtMs === undefined
    ? { ...fault, recoveredAtMs: untilMs }
    : { ...fault, recoveredAtMs, sendsMs: Math.round(recoveredAtMs - healedAtMs) };
}

/** Checks whether a fault, or the recovery from it, and another one disturbed each other. */
function overlaps(
  { atMs, healedAtMs = Number.POSITIVE_INFINITY, recoveredAtMs }: MeasuredFault,
  other: { atMs: number; healedAtMs: number },
): boolean {
  const endsAtMs = Math.max(healedAtMs + RECOVERED_MS, recoveredAtMs);
  return atMs <= other.healedAtMs + RECOVERED_MS && endsAtMs >= other.atMs;
}

/** Summarizes recoveries by kind of fault; the times are without those that overlapped. */
export function summarizeRecoveries(recoveries: readonly Recovery[]) {
  const byFault = Map.groupBy(recoveries, ({ fault }) => fault);
  return Object.fromEntries(
    [...byFault].sort().map(([fault, all]) => {
      const alone = all.filter(({ isOverlapping }) => !isOverlapping);
      const summary = {
        ...{ faults: all.length, overlapping: all.length - alone.length },
        /** Faults after which requests failed until the next fault. */
        unrecovered: alone.filter(({ sendsMs }) => sendsMs === undefined).length,
        sendsMs: summarize(alone.flatMap(({ sendsMs }) => sendsMs ?? [])),
        arrivalsMs: summarize(alone.flatMap(({ arrivalsMs }) => arrivalsMs ?? [])),
      };
      return [fault, summary];
    }),
  );
}

/** Finds when each push came to the last of its provider's devices for the first time, by mark. */
function findArrivalTimes(arrivals: readonly Arrival[]): Map<string, number> {
  // Devices with MQTT are offline at times, and a push then waits for them. FCM is their fallback.
  const atProviders = arrivals.filter(({ channel }) => channel !== 'mqtt' && channel !== 'fcm');
  const times = new Map<string, number>();
  for (const [, ofDevice] of Map.groupBy(atProviders, ({ mark, token }) => `${mark} ${token}`)) {
    const mark = ofDevice[0]?.mark ?? '';
    const firstAtMs = Math.min(...ofDevice.map(({ atMs }) => atMs));
    times.set(mark, Math.max(firstAtMs, times.get(mark) ?? 0));
  }
  return times;
}

function isAcceptedWithin(
  { tries, dueAtMs, deletion, collapse }: SentPush,
  fromMs: number,
  toMs: number,
): boolean {
  const acceptedAtMs = tries.find(({ end }) => end === 'ok')?.endedAtMs ?? Number.NaN;
  const isPlain = dueAtMs === undefined && deletion === undefined && collapse === undefined;
  return isPlain && acceptedAtMs >= fromMs && acceptedAtMs <= toMs;
}

function summarize(values: readonly number[]): { p50: number; max: number } | undefined {
  const sorted = values.toSorted((a, b) => a - b);
  const [p50, max] = [sorted[Math.ceil(sorted.length / 2) - 1], sorted.at(-1)];
  return p50 === undefined || max === undefined ? undefined : { p50, max };
}

/**
 * Compares the memory of each service in an early and in the last part of a run: the median of its largest process. Faults end
 * processes, and a process is smaller the younger it is, so the others tell more of the faults than of the memory.
 */
export function compareMemory(
  samples: readonly { atMs: number; service: string; bytes: number }[],
  lengthMs: number,
): History['memory'] {
  const services = Map.groupBy(samples, ({ service }) => service);
  return [...services].flatMap(([service, ofService]) => {
    const largest = [...Map.groupBy(ofService, ({ atMs }) => atMs)].map(([atMs, atOnce]) => ({
      atMs,
      bytes: Math.max(...atOnce.map(({ bytes }) => bytes)),
    }));
    const medianOf = ({ from, to }: typeof EARLY) =>
      findMedian(
        largest
          .filter(({ atMs }) => atMs >= from * lengthMs && atMs <= to * lengthMs)
          .map(({ bytes }) => bytes),
      );
    const [before, after] = [medianOf(EARLY), medianOf(LATE)];
    return before === undefined || after === undefined ? [] : [{ service, before, after }];
  });
}

function findMedian(values: readonly number[]): number | undefined {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
}
