import { startInterval } from '@carillon/core/intervals';
import { type Db, type Document, Long } from 'mongodb';

/** Maximum samples of a reading. */
const SAMPLE_COUNT = 3;
/** Maximum width of a sample that suffices alone, if it agrees with the known offset. */
const PRECISE_MS = 5;
const RESYNC_INTERVAL_MS = 10_000;

/** MongoDB's time, advanced by the local monotonic clock: the services' wall clocks don't matter. */
export type Clock = Awaited<ReturnType<typeof createClock>>;

/** Bounds of the server's offset from the local clock: the server read its clock between request and response. */
interface OffsetBounds {
  minOffsetMs: number;
  maxOffsetMs: number;
}

async function sampleServerTime(db: Db): Promise<OffsetBounds> {
  const before = performance.now();
  const hello = await db.admin().command({ hello: 1 });
  const after = performance.now();
  const localTime: unknown = hello.localTime;
  if (!(localTime instanceof Date)) throw new Error('MongoDB reported no local time');
  const at = localTime.getTime();
  // The server reports whole milliseconds.
  return { minOffsetMs: at - after, maxOffsetMs: at + 1 - before };
}

/**
 * Returns the offset, changed only as far as the samples contradict it. `NaN`: none is known yet. The first one is the lowest
 * possible: with a time ahead of the server's, a batch would not be due yet when its job comes.
 */
function correctOffset(offsetMs: number, samples: readonly OffsetBounds[]): number {
  const minOffsetMs = Math.max(...samples.map((one) => one.minOffsetMs));
  const maxOffsetMs = Math.min(...samples.map((one) => one.maxOffsetMs));
  // Samples that contradict each other: one of the clocks was set in between.
  const lowestMs = Math.min(minOffsetMs, maxOffsetMs);
  if (Number.isNaN(offsetMs) || minOffsetMs > maxOffsetMs) return lowestMs;
  return Math.min(maxOffsetMs, Math.max(minOffsetMs, offsetMs));
}

function confirms({ minOffsetMs, maxOffsetMs }: OffsetBounds, offsetMs: number): boolean {
  const isInside = minOffsetMs <= offsetMs && offsetMs <= maxOffsetMs;
  return isInside && maxOffsetMs - minOffsetMs <= PRECISE_MS;
}

/**
 * Reads the server's clock a few times, and again every 10 s. A later reading changes the offset only as far as it
 * contradicts it: on a busy machine a response may be a second late, and the time must not jump by that.
 */
export async function createClock(db: Db) {
  let offsetMs = Number.NaN;
  async function syncOffset(): Promise<void> {
    const samples: OffsetBounds[] = [];
    while (samples.length < SAMPLE_COUNT && !samples.some((one) => confirms(one, offsetMs)))
      samples.push(await sampleServerTime(db));
    offsetMs = correctOffset(offsetMs, samples);
  }
  await syncOffset();
  const stop = startInterval(() => void syncOffset().catch(() => undefined), RESYNC_INTERVAL_MS);
  return {
    /** Returns the milliseconds since 1970 by MongoDB's clock. */
    now: (): number => offsetMs + performance.now(),
    stop,
  };
}

/** Builds a time by MongoDB's clock for a pipeline update; the delay is a number or an expression. */
export function fromNow(delayMs: number | Document): Document {
  return { $add: ['$$NOW', typeof delayMs === 'number' ? Long.fromNumber(delayMs) : delayMs] };
}
