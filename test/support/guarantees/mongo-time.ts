import type { TestMongo } from '../mongo.ts';

/** MongoDB's clock, which decides what is due, seen from a test. */
export interface MongoTime {
  /** Milliseconds since 1970 at a local moment (`performance.now()`): surely not later than this. */
  latest(localMs?: number): number;
  /** The same: surely not earlier than this. */
  earliest(localMs?: number): number;
}

const SAMPLES = 10;

/** Compares the clocks a few times; the quickest response bounds the difference best. */
export async function readMongoTime({ db }: TestMongo): Promise<MongoTime> {
  let atMost = Number.POSITIVE_INFINITY;
  let atLeast = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < SAMPLES; i++) {
    const before = performance.now();
    const hello = await db.admin().command({ hello: 1 });
    const after = performance.now();
    const time = (hello.localTime as Date).getTime();
    // It returns whole milliseconds, rounded down.
    atMost = Math.min(atMost, time + 1 - before);
    atLeast = Math.max(atLeast, time - after);
  }
  return {
    latest: (localMs = performance.now()) => atMost + localMs,
    earliest: (localMs = performance.now()) => atLeast + localMs,
  };
}
