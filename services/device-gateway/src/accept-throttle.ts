import type { Socket } from 'node:net';

/**
 * Maximum handshakes that start in a turn of the event loop: about 4 ms of work with TLS (0.5 ms each). Started
 * handshakes complete and connected devices are served in between.
 */
const STARTS_PER_TURN = 8;
/** Maximum wait of a socket; then it is closed. Clients time out after ten seconds or more, and reconnect. */
const MAX_WAIT_MS = 8_000;
/** Maximum queued sockets of addresses above their rate; a new one evicts the oldest. */
const MAX_LOW_PRIORITY = 1_000;
/** Interval at which the first low-priority socket is tried again. */
const RETRY_INTERVAL_MS = 20;

/** A socket that was accepted and not read yet. */
export interface AcceptedSocket {
  socket: Socket;
  address: string;
}

/**
 * Starts accepted sockets one after another; sockets of addresses above their rate start when no other socket waits.
 *
 * @param tryStart is called when it is a socket's turn; returns false if there is no capacity yet
 * @param onEvicted is called when a queued socket is closed to make room for another
 */
export function createAcceptThrottle(
  tryStart: (accepted: AcceptedSocket) => boolean,
  onEvicted: () => void,
) {
  const normalQueue = createQueue();
  const lowPriorityQueue = createQueue();
  let immediate: NodeJS.Immediate | undefined;
  let retryTimer: NodeJS.Timeout | undefined;

  function startNext(): void {
    immediate = undefined;
    let started = 0;
    for (; started < STARTS_PER_TURN && normalQueue.size() > 0; started += 1) {
      const accepted = normalQueue.shift();
      if (accepted !== undefined && !tryStart(accepted)) enqueueLowPriority(accepted);
    }
    let isBlocked = false;
    for (; started < STARTS_PER_TURN && lowPriorityQueue.size() > 0 && !isBlocked; started += 1) {
      const accepted = lowPriorityQueue.peek();
      if (accepted !== undefined && tryStart(accepted)) lowPriorityQueue.shift();
      else isBlocked = true;
    }
    if (normalQueue.size() > 0 || (lowPriorityQueue.size() > 0 && !isBlocked)) schedule();
    else if (lowPriorityQueue.size() > 0) retryTimer ??= setTimeout(retry, RETRY_INTERVAL_MS);
  }

  function schedule(): void {
    immediate ??= setImmediate(startNext);
  }

  function retry(): void {
    retryTimer = undefined;
    schedule();
  }

  function enqueueLowPriority(accepted: AcceptedSocket): void {
    while (
      lowPriorityQueue.size() >= MAX_LOW_PRIORITY ||
      lowPriorityQueue.waitedMs() > MAX_WAIT_MS
    ) {
      lowPriorityQueue.shift()?.socket.destroy();
      onEvicted();
    }
    lowPriorityQueue.add(accepted);
  }

  return {
    /**
     * Queues a socket.
     *
     * @returns false if the queue is too long
     */
    enqueue(accepted: AcceptedSocket, isOverLimit: boolean): boolean {
      if (isOverLimit) enqueueLowPriority(accepted);
      else if (normalQueue.waitedMs() > MAX_WAIT_MS) return false;
      else normalQueue.add(accepted);
      schedule();
      return true;
    },
    countQueued: () => normalQueue.size() + lowPriorityQueue.size(),
    /** Closes the queued sockets. */
    stop(): void {
      if (immediate !== undefined) clearImmediate(immediate);
      clearTimeout(retryTimer);
      for (const queue of [normalQueue, lowPriorityQueue]) {
        while (queue.size() > 0) queue.shift()?.socket.destroy();
      }
    },
  };
}

function createQueue() {
  let queue: (AcceptedSocket & { queuedAt: number })[] = [];
  let head = 0;

  return {
    size: () => queue.length - head,
    /** Milliseconds that the first socket has waited. */
    waitedMs: () => performance.now() - (queue[head]?.queuedAt ?? performance.now()),
    peek: (): AcceptedSocket | undefined => queue[head],
    add: (accepted: AcceptedSocket) =>
      void queue.push({ ...accepted, queuedAt: performance.now() }),
    shift(): AcceptedSocket | undefined {
      const first = queue[head];
      if (first === undefined) return undefined;
      head += 1;
      // Copies when half of the array is consumed, so that the cost per socket is constant.
      if (head * 2 >= queue.length) {
        queue = queue.slice(head);
        head = 0;
      }
      return first;
    },
  };
}
