import { type Db, type Document, Long } from 'mongodb';

const SAMPLES = 3;
const SAMPLE_EVERY_MS = 10_000;

/** MongoDB's time, followed by the local monotonic clock: wall clocks of the services don't matter. */
export interface Clock {
  /** Milliseconds since 1970 by MongoDB's clock. */
  now(): number;
  stop(): void;
}

/** How far the server's time is from the local one: surely between these, for it read its clock meanwhile. */
interface Sample {
  least: number;
  most: number;
}

async function sample(db: Db): Promise<Sample> {
  const before = performance.now();
  const hello = await db.admin().command({ hello: 1 });
  const after = performance.now();
  const localTime: unknown = hello.localTime;
  if (!(localTime instanceof Date)) throw new Error('the database does not tell its time');
  const at = localTime.getTime();
  // The server tells whole milliseconds.
  return { least: at - after, most: at + 1 - before };
}

/** The offset, moved only where the samples prove it wrong. `NaN`: none is known yet. */
function corrected(offset: number, samples: readonly Sample[]): number {
  const least = Math.max(...samples.map((one) => one.least));
  const most = Math.min(...samples.map((one) => one.most));
  // Samples that contradict each other: one of the clocks was set in between.
  if (Number.isNaN(offset) || least > most) return (least + most) / 2;
  return Math.min(most, Math.max(least, offset));
}

/**
 * Reads the server's clock a few times and looks again every 10 s. A later look moves only what it proves wrong: on a
 * busy machine an answer may be a second old, and the time must not jump by that.
 */
export async function createClock(db: Db): Promise<Clock> {
  let offset = Number.NaN;
  async function follow(): Promise<void> {
    const samples: Sample[] = [];
    for (let i = 0; i < SAMPLES; i += 1) samples.push(await sample(db));
    offset = corrected(offset, samples);
  }
  await follow();
  const timer = setInterval(() => void follow().catch(() => undefined), SAMPLE_EVERY_MS);
  timer.unref();
  return { now: () => offset + performance.now(), stop: () => clearInterval(timer) };
}

/** A time by MongoDB's clock, for an update that is a pipeline; `ms` a number or an expression. */
export function fromNow(ms: number | Document): Document {
  return { $add: ['$$NOW', typeof ms === 'number' ? Long.fromNumber(ms) : ms] };
}
