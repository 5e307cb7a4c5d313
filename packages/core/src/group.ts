/** What a grouped call does with one group: an answer or an Error for each item, in order. */
export type GroupWork<T, R> = (items: T[]) => Promise<readonly (R | Error)[]>;

interface Waiting<T, R> {
  item: T;
  resolve: (answer: R) => void;
  reject: (error: unknown) => void;
}

/**
 * Turns many single calls into few grouped ones: while one group is in flight the next forms, so a lone
 * call waits for nobody and a crowd shares the round trip (and the journal's sync).
 *
 * @param work runs one group; if it throws, every caller of that group gets the error
 * @param limits items per group and groups in flight at once
 */
export function createGroup<T, R>(
  work: GroupWork<T, R>,
  { maxItems = 1_000, inFlight = 1 }: { maxItems?: number; inFlight?: number } = {},
): (item: T) => Promise<R> {
  let waiting: Waiting<T, R>[] = [];
  let running = 0;

  async function run(group: Waiting<T, R>[]): Promise<void> {
    running += 1;
    try {
      const answers = await work(group.map((one) => one.item));
      for (const [index, one] of group.entries()) {
        const answer = answers[index];
        if (answer instanceof Error) one.reject(answer);
        else one.resolve(answer as R);
      }
    } catch (error) {
      for (const one of group) one.reject(error);
    } finally {
      running -= 1;
      start();
    }
  }

  function start(): void {
    while (running < inFlight && waiting.length > 0) {
      const group = waiting.slice(0, maxItems);
      waiting = waiting.slice(maxItems);
      void run(group);
    }
  }

  return (item) =>
    new Promise((resolve, reject) => {
      waiting.push({ item, resolve, reject });
      // The callers of one turn of the event loop come together before the first group leaves.
      if (waiting.length === 1) queueMicrotask(start);
    });
}
