import { setTimeout as sleep } from 'node:timers/promises';

export interface Patience {
  /** How long to go on asking. */
  timeoutMs?: number;
  /** Pause between two questions. */
  everyMs?: number;
  /** What is waited for, for the error's text. */
  what?: string;
}

/**
 * Asks until the answer is neither false, null nor undefined, and gives that answer.
 *
 * @throws when the time is over, naming what was waited for and the last error of `condition`.
 */
export async function until<T>(
  condition: () => T | Promise<T>,
  { timeoutMs = 10_000, everyMs = 25, what = condition.toString() }: Patience = {},
): Promise<Exclude<T, false | null | undefined>> {
  const deadline = performance.now() + timeoutMs;
  let cause: unknown;
  do {
    try {
      const answer = await condition();
      if (isAnswer(answer)) return answer;
      cause = undefined;
    } catch (error) {
      cause = error;
    }
    await sleep(everyMs);
  } while (performance.now() < deadline);
  throw new Error(`not within ${timeoutMs} ms: ${what}`, { cause });
}

function isAnswer<T>(answer: T): answer is Exclude<T, false | null | undefined> {
  return answer !== false && answer !== null && answer !== undefined;
}
