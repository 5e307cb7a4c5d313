import { setTimeout as sleep } from 'node:timers/promises';

const MS_PER_SECOND = 1_000;
const STEP_MS = 50;
/** Shorter delays are those of any timer. */
const NOTICED_MS = 20;

/** Longest delay of this process in each second that had one, in milliseconds, by Unix second. */
export type ObserverLags = Readonly<Record<string, number>>;

/** Delays of this process. */
export interface LagRecord {
  /** Waits, and records by how much that took longer. */
  measure(ms: number): Promise<void>;
  /** Measures until a promise has settled. */
  during<T>(promise: Promise<T>): Promise<T>;
  read(): ObserverLags;
  /** Returns the longest delay, 0 without one. */
  maxMs(): number;
}

/** Creates an empty record. */
export function createLagRecord(): LagRecord {
  const lags: Record<string, number> = {};
  async function measure(ms: number): Promise<void> {
    const startedAt = performance.now();
    await sleep(ms);
    const endedAt = performance.now();
    const lagMs = Math.ceil(endedAt - startedAt - ms);
    if (lagMs < NOTICED_MS) return;
    const last = toSecond(performance.timeOrigin + endedAt);
    for (let at = toSecond(performance.timeOrigin + startedAt); at <= last; at += 1)
      lags[at] = Math.max(lags[at] ?? 0, lagMs);
  }
  return {
    measure,
    async during(promise) {
      let hasSettled = false;
      const settle = () => {
        hasSettled = true;
      };
      promise.then(settle, settle);
      while (!hasSettled) await measure(STEP_MS);
      return promise;
    },
    read: () => ({ ...lags }),
    maxMs: () => Math.max(0, ...Object.values(lags)),
  };
}

/**
 * Returns by how much something that was noticed at a moment may have been earlier, in milliseconds: this process had so
 * long a delay in that second, or in the one before or after it.
 */
export function lagAt({ observerLags }: { observerLags: ObserverLags }, atMs: number): number {
  const second = toSecond(atMs);
  const around = [second - 1, second, second + 1];
  return Math.max(...around.map((one) => observerLags[one] ?? NOTICED_MS));
}

function toSecond(atMs: number): number {
  return Math.floor(atMs / MS_PER_SECOND);
}
