import { setTimeout as sleep } from 'node:timers/promises';

/** Runs a call, at once or together with others. */
export type Gather = <R>(call: () => Promise<R>) => Promise<R>;

/**
 * Creates a function that begins calls together, so that on their way they share the batches of `createBatcher`. A call that
 * finds none in progress begins at once: one caller who waits for each result loses no time.
 *
 * @param gatherMs milliseconds for which the first of some calls waits for others
 */
export function createGather(gatherMs: number): Gather {
  let inProgress = 0;
  let begin: Promise<void> | undefined;

  async function untilBegin(): Promise<void> {
    await sleep(gatherMs);
    begin = undefined;
  }

  return async (call) => {
    inProgress += 1;
    try {
      if (inProgress > 1) {
        begin ??= untilBegin();
        await begin;
      }
      return await call();
    } finally {
      inProgress -= 1;
    }
  };
}
