import { type Db, Long } from 'mongodb';

const SAMPLES = 3;
const SAMPLE_EVERY_MS = 10_000;

/** MongoDB's time, followed by the local monotonic clock: wall clocks of the services don't matter. */
export interface Clock {
  /** Milliseconds since 1970 by MongoDB's clock. */
  now(): number;
  stop(): void;
}

async function sample(db: Db): Promise<{ offset: number; roundTrip: number }> {
  const before = performance.now();
  const hello = await db.admin().command({ hello: 1 });
  const after = performance.now();
  const localTime: unknown = hello.localTime;
  if (!(localTime instanceof Date)) throw new Error('the database does not tell its time');
  return { offset: localTime.getTime() - (before + after) / 2, roundTrip: after - before };
}

/** Reads the server's clock a few times, keeps the quickest answer, and looks again every 10 s. */
export async function createClock(db: Db): Promise<Clock> {
  let offset = Number.NaN;
  async function follow(): Promise<void> {
    const samples = [];
    for (let i = 0; i < SAMPLES; i += 1) samples.push(await sample(db));
    samples.sort((a, b) => a.roundTrip - b.roundTrip);
    offset = samples[0]?.offset ?? offset;
  }
  await follow();
  const timer = setInterval(() => void follow().catch(() => undefined), SAMPLE_EVERY_MS);
  timer.unref();
  return { now: () => offset + performance.now(), stop: () => clearInterval(timer) };
}

/** A time by MongoDB's clock, for an update that is a pipeline. */
export function fromNow(ms: number): Record<string, unknown> {
  return { $add: ['$$NOW', Long.fromNumber(ms)] };
}
