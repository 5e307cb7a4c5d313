import { setTimeout as sleep } from 'node:timers/promises';

export interface PollOptions {
  /** How long to poll: a guard against hanging, not what the condition takes. */
  timeoutMs?: number;
  /** Pause between two polls. */
  everyMs?: number;
  /** Name of the condition, for the error's text. */
  what?: string;
}

/**
 * Polls until the condition is neither false, null nor undefined. Returns its value.
 *
 * @throws at the timeout, naming the condition and the last error of `condition`.
 */
export async function until<T>(
  condition: () => T | Promise<T>,
  { timeoutMs = 60_000, everyMs = 25, what = condition.toString() }: PollOptions = {},
): Promise<Exclude<T, false | null | undefined>> {
  const deadline = performance.now() + timeoutMs;
  let cause: unknown;
  do {
    try {
      const value = await condition();
      if (isPresent(value)) return value;
      cause = undefined;
    } catch (error) {
      cause = error;
    }
    await sleep(everyMs);
  } while (performance.now() < deadline);
  throw new Error(`not within ${timeoutMs} ms: ${what}`, { cause });
}

function isPresent<T>(value: T): value is Exclude<T, false | null | undefined> {
  return value !== false && value !== null && value !== undefined;
}
