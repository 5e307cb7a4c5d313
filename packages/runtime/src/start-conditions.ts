import { setTimeout as sleep } from 'node:timers/promises';
import { SettingsError } from '@carillon/core/settings-error';
import type { Logger } from './logger.ts';

/** Delay between the first two checks of a condition. */
const INITIAL_DELAY_MS = 100;
/** Maximum delay between two checks of a condition. */
const MAX_DELAY_MS = 2_000;
/** Wait after which an unmet condition is logged; a shorter one is not worth a line. */
const LOG_AFTER_MS = 1_000;
/** Interval between two log lines about an unmet condition. */
const LOG_INTERVAL_MS = 30_000;

/** The process stops, so the start is aborted. */
export class StartAborted extends Error {}

/** Conditions of a start, for which it waits one after the other. */
export type StartConditions = ReturnType<typeof createStartConditions>;

/** Creates the conditions of a start. `stopping` ends every wait. */
export function createStartConditions(log: Pick<Logger, 'info' | 'warn'>, stopping: AbortSignal) {
  let pending: string | undefined;
  const aborted = new Promise<never>((_, reject) => {
    stopping.addEventListener('abort', () => reject(new StartAborted()), { once: true });
  });
  aborted.catch(() => undefined);

  async function repeat<T>(name: string, check: () => Promise<T>): Promise<T> {
    const startedAt = performance.now();
    let nextLogAt = startedAt + LOG_AFTER_MS;
    for (let delayMs = INITIAL_DELAY_MS; ; delayMs = Math.min(MAX_DELAY_MS, delayMs * 2)) {
      try {
        const result = await check();
        if (nextLogAt > startedAt + LOG_AFTER_MS)
          log.info(`${name} is available; continuing start-up`);
        return result;
      } catch (error) {
        if (error instanceof SettingsError) throw error;
        if (stopping.aborted) throw new StartAborted();
        if (performance.now() >= nextLogAt) {
          log.warn({ err: error }, `waiting for ${name}`);
          nextLogAt = performance.now() + LOG_INTERVAL_MS;
        }
      }
      // All processes of a deployment may wait at once: the jitter spreads their tries.
      await sleep(delayMs / 2 + (Math.random() * delayMs) / 2, undefined, { signal: stopping });
    }
  }

  return {
    /** Name of the condition that the start waits for now. */
    pending: (): string | undefined => pending,
    /**
     * Repeats a check until it succeeds and returns its result. The pauses grow to 2 s. Logs the condition and the last
     * error after a second, and again every 30 s.
     *
     * @throws the check's SettingsError at once; StartAborted when the process stops
     */
    async waitFor<T>(name: string, check: () => Promise<T>): Promise<T> {
      if (stopping.aborted) throw new StartAborted();
      pending = name;
      const result = repeat(name, check);
      result.catch(() => undefined);
      const value = await Promise.race([result, aborted]);
      pending = undefined;
      return value;
    },
  };
}
