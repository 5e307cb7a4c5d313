/** Sizes of the windows of a gateway. */
const SIZES = {
  /** Recipients that a worker dispatches to a gateway before it knows how fast the gateway writes. */
  initial: 2_000,
  /** Half of the largest batch. */
  min: 500,
  /** The bound of the gateway itself. */
  max: 20_000,
} as const;
/** A dispatch that was handled later than this was close to its write deadline: the window shrinks. */
const SLOW_MS = 250;
/** A dispatch that was handled sooner leaves room for more: the window grows. */
const FAST_MS = 120;
/** Time for which nothing more is dispatched to a gateway that reported nothing of a dispatch. */
const STALL_MS = 1_000;
/** Time after which an unused window is removed: a gateway gets a new identity at each start. */
const FORGET_MS = 60_000;

/** Room for the recipients of one dispatch in the window of their gateway. */
export interface Permit {
  /** Records that the dispatch was sent; the time until it is handled counts from here. */
  sent(): void;
  /** Releases the room, because the gateway has written or rejected the dispatch. */
  handled(): void;
  /** Releases the room, for any other reason; does nothing if it was released already. */
  release(): void;
  /** Releases the room, because the gateway reported nothing: waiting dispatches are refused for a second. */
  stalled(): void;
}

/** Room, or `stalled` if the gateway reports nothing at present. */
type PermitOrStall = Permit | 'stalled';

/** The windows of a worker. */
export type GatewayWindows = ReturnType<typeof createGatewayWindows>;

interface Waiter {
  size: number;
  resolve(permit: PermitOrStall): void;
}

/**
 * Creates the windows of a worker: for each gateway the number of recipients that were dispatched to it and that it has not
 * handled yet is bounded. A gateway can write only so many before the deadline of a dispatch; what it has not written by then
 * comes back, is dispatched again and makes the gateway read an inbox.
 *
 * A window follows the time that a dispatch takes to be handled, so that several workers share the capacity of one
 * gateway without communication. Only the worker holds it: when a worker dies, nothing has to be released. The apps
 * whose dispatches wait take turns. A dispatch to one device takes no room.
 *
 * @param shards a gateway has an identity in each of them, and so a window, which is so much smaller
 */
export function createGatewayWindows(shards: number) {
  const sizes = {
    initial: SIZES.initial / shards,
    min: SIZES.min / shards,
    max: SIZES.max / shards,
  };
  const windows = new Map<string, GatewayWindow>();

  function windowOf(gateway: string): GatewayWindow {
    const known = windows.get(gateway);
    if (known !== undefined) return known;
    for (const [id, window] of windows) if (window.isUnused()) windows.delete(id);
    const created = createGatewayWindow(sizes);
    windows.set(gateway, created);
    return created;
  }

  return {
    /** Returns room for a dispatch; undefined if there is none. One that may not wait goes before those that wait. */
    tryAcquire: (
      gateway: string,
      size: number,
      { mayWait }: { mayWait: boolean },
    ): PermitOrStall | undefined => windowOf(gateway).tryAcquire(size, mayWait),
    /** Waits for room. */
    acquire: (gateway: string, app: string, size: number): Promise<PermitOrStall> =>
      windowOf(gateway).acquire(app, size),
    /** Refuses all that wait. */
    close(): void {
      for (const window of windows.values()) window.refuseAll();
    },
  };
}

type GatewayWindow = ReturnType<typeof createGatewayWindow>;

/** Creates the window of one gateway. */
function createGatewayWindow({ initial, min, max }: Record<keyof typeof SIZES, number>) {
  const waiting = createTurns();
  let maxSize = initial;
  let taken = 0;
  let stalledUntil = Number.NEGATIVE_INFINITY;
  /** Dispatches that were sent before the window shrank say nothing about its size. */
  let shrunkAt = Number.NEGATIVE_INFINITY;
  let usedAt = performance.now();

  const isStalled = (): boolean => performance.now() < stalledUntil;
  /** A dispatch that is larger than the window goes alone. */
  const hasRoom = (size: number): boolean => taken === 0 || taken + size <= maxSize;

  function adjust(sentAt: number, size: number): void {
    const tookMs = performance.now() - sentAt;
    if (tookMs > SLOW_MS && sentAt > shrunkAt) {
      maxSize = Math.max(min, maxSize / 2);
      shrunkAt = performance.now();
    } else if (tookMs < FAST_MS && !waiting.isEmpty()) {
      maxSize = Math.min(max, maxSize + size / 2);
    }
  }

  function give(): void {
    for (let next = waiting.next(); next !== undefined; next = waiting.next()) {
      if (!hasRoom(next.size)) return;
      waiting.shift();
      next.resolve(take(next.size));
    }
  }

  function take(size: number): Permit {
    let isHeld = true;
    let sentAt = performance.now();
    taken += size;
    usedAt = sentAt;
    function release(): void {
      if (!isHeld) return;
      isHeld = false;
      taken -= size;
      usedAt = performance.now();
      give();
    }
    return {
      sent() {
        sentAt = performance.now();
      },
      handled() {
        if (!isHeld) return;
        adjust(sentAt, size);
        release();
      },
      release,
      stalled() {
        // It has handled the dispatch, and only its results are missing.
        if (!isHeld) return;
        stalledUntil = performance.now() + STALL_MS;
        maxSize = min;
        waiting.refuseAll();
        release();
      },
    };
  }

  return {
    tryAcquire(size: number, mayWait: boolean): PermitOrStall | undefined {
      if (isStalled()) return 'stalled';
      const isFree = waiting.isEmpty() || !mayWait;
      return isFree && hasRoom(size) ? take(size) : undefined;
    },
    acquire(app: string, size: number): Promise<PermitOrStall> {
      if (isStalled()) return Promise.resolve('stalled');
      const { promise, resolve } = Promise.withResolvers<PermitOrStall>();
      waiting.add(app, { size, resolve });
      give();
      return promise;
    },
    refuseAll: waiting.refuseAll,
    isUnused: (): boolean =>
      taken === 0 && waiting.isEmpty() && performance.now() - usedAt > FORGET_MS,
  };
}

/** Creates queues of waiters, one for each app, that take turns. */
function createTurns() {
  /** The first app has the next turn. */
  const queues = new Map<string, Waiter[]>();

  function head(): [app: string, queue: Waiter[]] | undefined {
    const [first] = queues;
    return first;
  }

  return {
    isEmpty: (): boolean => queues.size === 0,
    add(app: string, waiter: Waiter): void {
      const queue = queues.get(app);
      if (queue === undefined) queues.set(app, [waiter]);
      else queue.push(waiter);
    },
    /** Returns the waiter whose turn it is. */
    next: (): Waiter | undefined => head()?.[1][0],
    /** Refuses all waiters. */
    refuseAll(): void {
      for (const { resolve } of [...queues.values()].flat()) resolve('stalled');
      queues.clear();
    },
    /** Removes the waiter whose turn it is, and gives the turn to the next app. */
    shift(): Waiter | undefined {
      const first = head();
      if (first === undefined) return undefined;
      const [app, queue] = first;
      const waiter = queue.shift();
      queues.delete(app);
      if (queue.length > 0) queues.set(app, queue);
      return waiter;
    },
  };
}
