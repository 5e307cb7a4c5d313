import { createDeadlines, type TickingClock } from './deadlines.ts';

/** Creates the queues of the requests that wait until fewer are in progress, one for each owner: an account or an app. */
export function createWaitingRequests<T extends { owner: string }>(clock?: TickingClock) {
  /** The waiting requests of each owner, in order, each with the function that ends its wait. */
  const queues = new Map<string, Map<T, (hasTurn: boolean) => void>>();
  const startDeadline = createDeadlines<T>((request) => end(request, false), clock);

  function end(request: T, hasTurn: boolean): void {
    const queue = queues.get(request.owner);
    const endWait = queue?.get(request);
    queue?.delete(request);
    if (queue?.size === 0) queues.delete(request.owner);
    endWait?.(hasTurn);
  }

  return {
    /** Waits for a turn, at most `maxMs`. Returns whether it has come. */
    async wait(request: T, maxMs: number): Promise<boolean> {
      const queue = queues.get(request.owner) ?? new Map();
      queues.set(request.owner, queue);
      const { promise, resolve } = Promise.withResolvers<boolean>();
      queue.set(request, resolve);
      const deadline = startDeadline(maxMs, request);
      return promise.finally(() => deadline.end());
    },

    /** Ends the wait of a request without a turn. */
    refuse: (request: T): void => end(request, false),

    /** Lists the waiting requests of an owner, the oldest first. */
    listOf: (owner: string): T[] => [...(queues.get(owner)?.keys() ?? [])],

    /**
     * Gives turns, one to each owner and then the next one to each, until all have been refused one.
     *
     * @param take counts a request as in progress, or returns false if its owner must wait
     */
    giveTurns(take: (request: T) => boolean): void {
      // An owner whose queue is set again comes once more at the end of the loop.
      for (const [owner, queue] of queues) {
        const [request] = queue.keys();
        if (request === undefined || !take(request)) continue;
        end(request, true);
        queues.delete(owner);
        if (queue.size > 0) queues.set(owner, queue);
      }
    },
  };
}
