import { ConsoleError } from '../http/route.ts';

/** Maximum files that are verified at once. Each takes a thread, for up to the time limit of a file. */
const MAX_RUNNING = 2;
const RETRY_AFTER_SECONDS = 5;

/**
 * Creates the function that verifies files a few at a time, in the order in which they came. An operator has one file in it,
 * so that the files of one keep another waiting for no longer than a file each.
 */
export function createFileChecks() {
  const operators = new Set<string>();
  const waiting: (() => void)[] = [];
  let running = 0;

  /** @throws ConsoleError TOO_MANY_ATTEMPTS while another file of the operator is verified; what `verify` throws */
  return async <T>(operator: string, verify: () => Promise<T>): Promise<T> => {
    if (operators.has(operator)) {
      throw new ConsoleError(
        'TOO_MANY_ATTEMPTS',
        'Another file of yours is being checked. Try again when it is done.',
        RETRY_AFTER_SECONDS,
      );
    }
    operators.add(operator);
    if (running < MAX_RUNNING) running += 1;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      return await verify();
    } finally {
      operators.delete(operator);
      // A file that is done gives its place to the one that waits longest.
      const next = waiting.shift();
      if (next === undefined) running -= 1;
      else next();
    }
  };
}
