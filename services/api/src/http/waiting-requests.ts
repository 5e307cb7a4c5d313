import { createDeadlines, type TickingClock } from './deadlines.ts';

/** Maximum wait of a request: with the second after which a request is slow, it stays within the response timeout. */
const MAX_WAIT_MS = 1_500;
/** Maximum waiting requests of an account. */
const MAX_WAITING_PER_ACCOUNT = 256;

interface WaitingRequest {
  account: string;
  /** Ends the wait. */
  end(hasTurn: boolean): void;
}

/** Creates the queues of the requests that wait until fewer are in progress, one for each account. */
export function createWaitingRequests(clock?: TickingClock) {
  const queues = new Map<string, Set<WaitingRequest>>();
  const startDeadline = createDeadlines<WaitingRequest>((request) => end(request, false), clock);

  function end(request: WaitingRequest, hasTurn: boolean): void {
    const queue = queues.get(request.account);
    queue?.delete(request);
    if (queue?.size === 0) queues.delete(request.account);
    request.end(hasTurn);
  }

  return {
    /**
     * Waits for a turn. Returns whether it has come: it does not if the request waits for too long, or if too many of the
     * account wait and it is the oldest. The newest has the most time left: after an outage it gets its turn.
     */
    async wait(account: string): Promise<boolean> {
      const queue = queues.get(account) ?? new Set();
      const [oldest] = queue;
      if (oldest !== undefined && queue.size >= MAX_WAITING_PER_ACCOUNT) end(oldest, false);
      queues.set(account, queue);
      const { promise, resolve } = Promise.withResolvers<boolean>();
      const request = { account, end: resolve };
      queue.add(request);
      const deadline = startDeadline(MAX_WAIT_MS, request);
      return promise.finally(() => deadline.end());
    },

    /**
     * Gives turns, one to each account and then the next one to each, until all have been refused one.
     *
     * @param take counts a request of the account as in progress, or returns false if the account must wait
     */
    giveTurns(take: (account: string) => boolean): void {
      // An account whose queue is set again comes once more at the end of the loop.
      for (const [account, queue] of queues) {
        const [request] = queue;
        if (request === undefined || !take(account)) continue;
        end(request, true);
        queues.delete(account);
        if (queue.size > 0) queues.set(account, queue);
      }
    },
  };
}
