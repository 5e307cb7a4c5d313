import { setTimeout as sleep } from 'node:timers/promises';
import { percentile } from './statistics.ts';

/** Load before a measurement: the code of a new process is not compiled yet, and with little load would be after minutes only. */
export const WARM_UP_SECONDS = 10;

/** Runs a task repeatedly, in sequence, until the warm-up is over; at least once. */
export async function warmUp(task: () => Promise<unknown>): Promise<void> {
  const endsAt = performance.now() + WARM_UP_SECONDS * 1_000;
  do await task();
  while (performance.now() < endsAt);
}

/** Runs a task repeatedly with bounded concurrency. @throws the first error */
export async function runConcurrently(
  times: number,
  concurrency: number,
  task: (n: number) => Promise<void>,
): Promise<void> {
  let next = 0;
  const worker = async () => {
    for (let n = next++; n < times; n = next++) await task(n);
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, times) }, worker));
}

/**
 * Runs a task at a constant rate, whether or not earlier runs have ended.
 *
 * @param task gets its number and due time (`performance.now()`); a measurement from the due time includes the
 *   delay of a late start
 * @param shouldStop returns true to stop early
 */
export async function runAtRate(
  perSecond: number,
  times: number,
  task: (n: number, dueAt: number) => Promise<void>,
  shouldStop: () => boolean = () => false,
): Promise<void> {
  const startedAt = performance.now();
  const started: Promise<void>[] = [];
  for (let n = 0; n < times && !shouldStop(); ) {
    const due = Math.floor(((performance.now() - startedAt) * perSecond) / 1_000);
    for (; n <= due && n < times; n += 1) {
      started.push(task(n, startedAt + (n * 1_000) / perSecond));
    }
    await sleep(1);
  }
  await Promise.all(started);
}

/** Runs a task repeatedly, in sequence. @returns the median duration in milliseconds */
export async function measureMedian(count: number, task: () => Promise<unknown>): Promise<number> {
  const times: number[] = [];
  for (let n = 0; n < count; n += 1) {
    const startedAt = performance.now();
    await task();
    times.push(performance.now() - startedAt);
  }
  return percentile(times, 0.5);
}
