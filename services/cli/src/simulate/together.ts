/** Something that goes on until its signal aborts, and says when it is ready. */
export type Run = (options: { signal: AbortSignal; onReady: () => void }) => Promise<void>;

/**
 * Runs several at once until `signal` aborts; when one fails, the others are stopped.
 *
 * @param onReady called once all of them are ready
 * @throws what the first one that failed threw
 */
export async function together(
  runs: readonly Run[],
  { signal, onReady }: { signal: AbortSignal; onReady: () => void },
): Promise<void> {
  const over = new AbortController();
  const both = AbortSignal.any([signal, over.signal]);
  let waiting = runs.length;
  const onOneReady = () => {
    waiting -= 1;
    if (waiting === 0) onReady();
  };
  const running = runs.map((run) => run({ signal: both, onReady: onOneReady }));
  try {
    await Promise.all(running);
  } finally {
    over.abort();
    await Promise.allSettled(running);
  }
}
