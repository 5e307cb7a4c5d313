import { setTimeout as sleep } from 'node:timers/promises';
import type { History } from './history.ts';

const MS_PER_SECOND = 1_000;
/** Shorter delays are those of any timer. */
const NOTICED_MS = 20;

/** Delays of this process, by the second in which they were. */
export interface LagRecord {
  /** Waits, and records by how much that took longer. */
  measure(ms: number): Promise<void>;
  read(): History['observerLags'];
}

/** Creates an empty record. */
export function createLagRecord(): LagRecord {
  const lags: Record<string, number> = {};
  return {
    async measure(ms) {
      const startedAt = performance.now();
      await sleep(ms);
      const endedAt = performance.now();
      const lagMs = Math.ceil(endedAt - startedAt - ms);
      if (lagMs < NOTICED_MS) return;
      for (
        let second = toSecond(performance.timeOrigin + startedAt);
        second <= toSecond(performance.timeOrigin + endedAt);
        second += 1
      )
        lags[second] = Math.max(lags[second] ?? 0, lagMs);
    },
    read: () => ({ ...lags }),
  };
}

/**
 * Returns by how much something that was noticed at a moment may have been earlier, in milliseconds: this process had so
 * long a delay in that second, or in the one before or after it.
 */
export function lagAt({ observerLags }: Pick<History, 'observerLags'>, atMs: number): number {
  const second = toSecond(atMs);
  const around = [second - 1, second, second + 1];
  return Math.max(...around.map((one) => observerLags[one] ?? NOTICED_MS));
}

function toSecond(atMs: number): number {
  return Math.floor(atMs / MS_PER_SECOND);
}
