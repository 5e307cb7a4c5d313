import type { AppliedFault, Arrival, History, SentPush, Try } from './history.ts';

/** A fault's requests to send, and times from its end, in milliseconds. */
interface Recovery {
  fault: string;
  atMs: number;
  /**
   * Another fault lasted at the same time, or until shortly before, or began shortly after, or requests still failed because
   * of it: the times are those from both.
   */
  isOverlapping: boolean;
  /** Requests to send that began during the fault, and their times to the response. */
  during: { failed: number; answeredMs: number[] };
  /** Until requests to send got 200 again and none failed any more; absent if that was not before the next fault. */
  sendsMs?: number;
  /** Until the last first arrival at a provider's devices of the pushes that were accepted during the fault. */
  arrivalsMs?: number;
}

/** Recoveries from the faults of one kind. */
interface RecoverySummary {
  faults: number;
  /** Of these, those at the same time as others. The other figures are without them. */
  overlapping: number;
  /** Requests to send that began during these faults: how many, those without a 200 or a refusal, times to the response. */
  during: { requests: number; failed: number; p50Ms?: number; p99Ms?: number };
  /** Faults after which requests failed until the next fault. */
  unrecovered: number;
  sendsMs?: { p50: number; max: number };
  arrivalsMs?: { p50: number; max: number };
}

/** Faults are apart if one begins so long after the other has ended, and requests to send have recovered from that. */
const RECOVERED_MS = 5_000;
/** A scheduled push is undisturbed if it is due 5 s after the last fault has ended, and so long before the next one. */
const AFTER_DUE_MS = 2_000;
/** A fault without a duration is about the pushes that were accepted so long before it and after it. */
const SHORT_FAULT_MS = 1_000;

/** A fault, and until when requests to send failed because of it. */
interface MeasuredFault extends AppliedFault {
  sendsMs?: number;
  /** Unix milliseconds. If they failed until the next fault, its beginning. */
  recoveredAtMs: number;
}

/** Computes the recovery from each fault. Sends are of all pushes, arrivals of those that are neither late nor ended on purpose. */
export function findRecoveries(
  history: Pick<History, 'pushes' | 'arrivals' | 'settledAtMs'>,
  faults: readonly AppliedFault[],
): Recovery[] {
  const firstArrivals = findFirstArrivals(history.arrivals);
  const tries = history.pushes
    .flatMap((push) => push.tries)
    .toSorted((a, b) => a.endedAtMs - b.endedAtMs);
  const measured = faults.map((fault, index) => {
    const { healedAtMs = Number.POSITIVE_INFINITY } = fault;
    const next = faults.slice(index + 1).find((other) => other.atMs >= healedAtMs);
    return measureSends(tries, fault, next?.atMs ?? history.settledAtMs);
  });
  return measured.flatMap(({ fault, atMs, healedAtMs, sendsMs }, index) => {
    if (healedAtMs === undefined) return [];
    const window = {
      fromMs: atMs - SHORT_FAULT_MS,
      toMs: Math.max(healedAtMs, atMs + SHORT_FAULT_MS),
    };
    const lastMs = Math.max(
      ...history.pushes
        .filter((push) => isAcceptedWithin(push, window))
        .map(({ mark }) => firstArrivals.get(mark) ?? Number.NEGATIVE_INFINITY),
    );
    return [
      {
        ...{ fault, atMs, during: findRequestsDuring(tries, atMs, healedAtMs) },
        isOverlapping: measured.some(
          (other, n) => n !== index && overlaps(other, { atMs, healedAtMs }),
        ),
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

/** Summarizes recoveries by kind of fault. */
export function summarizeRecoveries(
  recoveries: readonly Recovery[],
): Record<string, RecoverySummary> {
  const byFault = Map.groupBy(recoveries, ({ fault }) => fault);
  return Object.fromEntries(
    [...byFault].sort().map(([fault, all]) => {
      const group = all.filter(({ isOverlapping }) => !isOverlapping);
      const sends = summarize(group.flatMap(({ sendsMs }) => sendsMs ?? []));
      const arrivals = summarize(group.flatMap(({ arrivalsMs }) => arrivalsMs ?? []));
      const answeredMs = group.flatMap(({ during }) => during.answeredMs);
      const failed = group.reduce((sum, { during }) => sum + during.failed, 0);
      const [p50Ms, p99Ms] = [percentile(answeredMs, 0.5), percentile(answeredMs, 0.99)];
      const summary: RecoverySummary = {
        ...{ faults: all.length, overlapping: all.length - group.length },
        during: {
          ...{ requests: answeredMs.length + failed, failed },
          ...(p50Ms !== undefined && p99Ms !== undefined && { p50Ms, p99Ms }),
        },
        unrecovered: group.filter(({ sendsMs }) => sendsMs === undefined).length,
        ...(sends && { sendsMs: sends }),
        ...(arrivals && { arrivalsMs: arrivals }),
      };
      return [fault, summary];
    }),
  );
}

/** Lateness of scheduled pushes at providers' devices, in milliseconds. */
export interface ScheduleSummary {
  pushes: number;
  firstMs?: number;
  p50Ms?: number;
  p99Ms?: number;
}

/** Summarizes by how much scheduled pushes were late that were due while all was well, and for some seconds before. */
export function summarizeSchedule(
  { pushes, arrivals }: Pick<History, 'pushes' | 'arrivals'>,
  faults: readonly AppliedFault[],
): ScheduleSummary {
  const firstArrivals = findFirstArrivals(arrivals);
  const lateMs = pushes.flatMap(({ mark, dueAtMs }) => {
    const arrivedAtMs = firstArrivals.get(mark);
    if (dueAtMs === undefined || arrivedAtMs === undefined) return [];
    const isDisturbed = faults.some(
      ({ atMs, healedAtMs = Number.POSITIVE_INFINITY }) =>
        atMs <= dueAtMs + AFTER_DUE_MS && dueAtMs <= healedAtMs + RECOVERED_MS,
    );
    return isDisturbed ? [] : [Math.round(arrivedAtMs - dueAtMs)];
  });
  const [firstMs, p50Ms, p99Ms] = [0, 0.5, 0.99].map((share) => percentile(lateMs, share));
  return {
    pushes: lateMs.length,
    ...(firstMs !== undefined &&
      p50Ms !== undefined &&
      p99Ms !== undefined && { firstMs, p50Ms, p99Ms }),
  };
}

/** Finds when each push came to the last of its provider's devices for the first time, by mark. */
function findFirstArrivals(arrivals: readonly Arrival[]): Map<string, number> {
  const firstAt = new Map<string, { mark: string; atMs: number }>();
  for (const { mark, token, atMs, channel } of arrivals) {
    // Devices with MQTT are offline at times, and a push then waits for them. FCM is their fallback.
    if (channel === 'mqtt' || channel === 'fcm') continue;
    const key = `${mark} ${token}`;
    if (atMs < (firstAt.get(key)?.atMs ?? Number.POSITIVE_INFINITY))
      firstAt.set(key, { mark, atMs });
  }
  const lastAt = new Map<string, number>();
  for (const { mark, atMs } of firstAt.values())
    lastAt.set(mark, Math.max(atMs, lastAt.get(mark) ?? 0));
  return lastAt;
}

function isAcceptedWithin(
  { tries, dueAtMs, deletion, collapse }: SentPush,
  { fromMs, toMs }: { fromMs: number; toMs: number },
): boolean {
  const acceptedAtMs = tries.find(({ end }) => end === 'ok')?.endedAtMs ?? Number.NaN;
  const isPlain = dueAtMs === undefined && deletion === undefined && collapse === undefined;
  return isPlain && acceptedAtMs >= fromMs && acceptedAtMs <= toMs;
}

function findRequestsDuring(
  tries: readonly Try[],
  fromMs: number,
  toMs: number,
): Recovery['during'] {
  const begun = tries.filter(({ startedAtMs }) => startedAtMs >= fromMs && startedAtMs <= toMs);
  const answered = begun.filter(({ end }) => end !== 'unknown');
  return {
    failed: begun.length - answered.length,
    answeredMs: answered.map(({ startedAtMs, endedAtMs }) => endedAtMs - startedAtMs),
  };
}

function summarize(values: readonly number[]): { p50: number; max: number } | undefined {
  const [p50, max] = [percentile(values, 0.5), percentile(values, 1)];
  return p50 === undefined || max === undefined ? undefined : { p50, max };
}

/** Returns the value that a share of the values does not exceed; undefined without values. */
function percentile(values: readonly number[], share: number): number | undefined {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)];
}
