import { setTimeout as sleep } from 'node:timers/promises';
import { percentile } from './figures.ts';

/** Does `each` so many times, with so many under way at once. Throws what the first of them throws. */
export async function inFlight(
  times: number,
  atOnce: number,
  each: (n: number) => Promise<void>,
): Promise<void> {
  let next = 0;
  const work = async () => {
    for (let n = next++; n < times; n = next++) await each(n);
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, times) }, work));
}

/**
 * Does `each` at a steady rate, whether or not the earlier ones have ended.
 *
 * @param each is told its number and when it was due, by `performance.now()`: whoever measures from there also
 *   counts what a late start has cost
 * @param isEnough ends it early
 */
export async function steadily(
  perSecond: number,
  times: number,
  each: (n: number, dueAt: number) => Promise<void>,
  isEnough: () => boolean = () => false,
): Promise<void> {
  const startedAt = performance.now();
  const started: Promise<void>[] = [];
  for (let n = 0; n < times && !isEnough(); ) {
    const due = Math.floor(((performance.now() - startedAt) * perSecond) / 1_000);
    for (; n <= due && n < times; n += 1) {
      started.push(each(n, startedAt + (n * 1_000) / perSecond));
    }
    await sleep(1);
  }
  await Promise.all(started);
}

/** Does `once` so many times, one after the other, and gives the median of their durations in milliseconds. */
export async function middle(count: number, once: () => Promise<unknown>): Promise<number> {
  const times: number[] = [];
  for (let n = 0; n < count; n += 1) {
    const startedAt = performance.now();
    await once();
    times.push(performance.now() - startedAt);
  }
  return percentile(times, 0.5);
}
