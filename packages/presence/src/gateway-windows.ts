import type { DeliveryResult, Report } from './replies.ts';
import {
  createReceiptWindow,
  createWriteWindow,
  type Window,
  type WindowSizes,
} from './window-size.ts';

/** Recipients that a worker dispatches to a gateway before it knows the gateway's and the devices' pace. */
const INITIAL_SIZE = 2_000;
/** The bound of the gateway itself. */
const MAX_SIZE = 20_000;
/** The window of what a gateway has not handled is at least half of the largest batch; that of receipts all of it. */
const MIN_WRITES = 500;
const MIN_RECEIPTS = 1_000;
/** Time for which nothing more is dispatched to a gateway that reported nothing of a dispatch. */
const STALL_MS = 1_000;
/**
 * Time for which dispatches that may not wait go before those that wait, while none of these gets room: a flow of them would
 * keep a window from ever being empty enough for a large one.
 */
const MAX_PASSED_OVER_MS = 500;
/** Time after which an unused window is removed: a gateway gets a new identity at each start. */
const FORGET_MS = 60_000;

/** Room for the recipients of one dispatch in the windows of their gateway and their app. */
export interface Permit {
  /** Records that the dispatch was sent to so many recipients; the time that it takes counts from here. */
  sent(recipients: number): void;
  /**
   * Records a report of the gateway; a result is that of so many recipients. `handled` releases the room at the gateway, and
   * receipts of half of those that may still acknowledge release that of the app.
   */
  record(report: Report, recipients: number): void;
  /** Releases the room, for any other reason; does nothing if it was released already. */
  release(): void;
  /** Releases the room, because the gateway reported nothing: waiting dispatches are refused for a second. */
  stalled(): void;
}

/** Room, or `stalled` if the gateway reports nothing at present. */
type PermitOrStall = Permit | 'stalled';

/** A dispatch that needs room. */
export interface RoomRequest {
  gateway: string;
  app: string;
  /** Number of its recipients. */
  size: number;
}

/** The windows of a worker. */
export type GatewayWindows = ReturnType<typeof createGatewayWindows>;

interface Waiter {
  size: number;
  resolve(permit: PermitOrStall): void;
}

/**
 * Creates the windows of a worker. Two bound what is in flight to a gateway:
 *
 * - The recipients whose dispatches the gateway has not handled. It can write only so many before the deadline of a dispatch;
 *   what it has not written by then comes back, is dispatched again and makes the gateway read an inbox.
 * - The recipients of an app that have not acknowledged. A gateway waits a second for a receipt; then the push gets an inbox
 *   row. Each app has its own: devices that are slow or gone take no room of another app.
 *
 * A window follows the time that a dispatch takes, so that several workers share the capacity of one gateway without
 * communication. Only the worker holds it: when a worker dies, nothing has to be released. The apps whose dispatches wait take
 * turns. A dispatch to one device takes no room.
 *
 * @param shards a gateway has an identity in each of them, and so windows, which are so much smaller
 */
export function createGatewayWindows(shards: number) {
  const sizesFrom = (min: number): WindowSizes => ({
    initial: INITIAL_SIZE / shards,
    min: min / shards,
    max: MAX_SIZE / shards,
  });
  const sizes = { writes: sizesFrom(MIN_WRITES), receipts: sizesFrom(MIN_RECEIPTS) };
  const gateways = new Map<string, GatewayWindow>();

  function windowOf(gateway: string): GatewayWindow {
    const known = gateways.get(gateway);
    if (known !== undefined) return known;
    for (const [id, window] of gateways) if (window.isUnused()) gateways.delete(id);
    const created = createGatewayWindow(sizes);
    gateways.set(gateway, created);
    return created;
  }

  return {
    /**
     * Returns room for a dispatch; undefined if there is none. One that may not wait goes before those that wait, unless these
     * have got no room for {@link MAX_PASSED_OVER_MS}.
     */
    tryAcquire: (
      { gateway, app, size }: RoomRequest,
      { mayWait }: { mayWait: boolean },
    ): PermitOrStall | undefined => windowOf(gateway).tryAcquire(app, size, mayWait),
    /** Waits for room. */
    acquire: ({ gateway, app, size }: RoomRequest): Promise<PermitOrStall> =>
      windowOf(gateway).acquire(app, size),
    /** Refuses all that wait. */
    close(): void {
      for (const window of gateways.values()) window.refuseAll();
    },
  };
}

type GatewayWindow = ReturnType<typeof createGatewayWindow>;

/** Creates the windows of one gateway. */
function createGatewayWindow(sizes: Record<'writes' | 'receipts', WindowSizes>) {
  const writes = createWriteWindow(sizes.writes);
  const receipts = createReceiptWindows(sizes.receipts);
  const waiting = createTurns();
  let stalledUntil = Number.NEGATIVE_INFINITY;
  /** When a dispatch that waited got room, or the first of those that wait came. */
  let givenAt = Number.NEGATIVE_INFINITY;

  const isStalled = (): boolean => performance.now() < stalledUntil;
  /** Returns the app whose dispatch is the next that waits only for the gateway. */
  const nextApp = (): string | undefined =>
    waiting.findApp((app, { size }) => receipts.of(app, size).hasRoom(size));

  function give(): void {
    for (let app = nextApp(); app !== undefined; app = nextApp()) {
      const size = waiting.head(app)?.size ?? 0;
      if (!writes.hasRoom(size)) return;
      givenAt = performance.now();
      waiting.shift(app)?.resolve(take(app, size));
    }
  }

  /** Checks whether those that wait for the gateway have got no room for long. */
  function arePassedOver(): boolean {
    return performance.now() - givenAt > MAX_PASSED_OVER_MS && nextApp() !== undefined;
  }

  function stall(): void {
    stalledUntil = performance.now() + STALL_MS;
    writes.reset();
    refuseAll();
  }

  function refuseAll(): void {
    waiting.removeAll().forEach(({ resolve }) => void resolve('stalled'));
  }

  function take(app: string, size: number): Permit {
    const write = takeRoom(writes, size, () => !waiting.isEmpty());
    const receipt = takeRoom(receipts.of(app, size), size, () => waiting.head(app) !== undefined);
    return createPermit(write, receipt, { onRoom: give, onStall: stall });
  }

  return {
    tryAcquire(app: string, size: number, mayWait: boolean): PermitOrStall | undefined {
      if (isStalled()) return 'stalled';
      if (!writes.hasRoom(size) || !receipts.of(app, size).hasRoom(size)) return undefined;
      const isNext = mayWait
        ? waiting.head(app) === undefined && nextApp() === undefined
        : !arePassedOver();
      return isNext ? take(app, size) : undefined;
    },
    acquire(app: string, size: number): Promise<PermitOrStall> {
      if (isStalled()) return Promise.resolve('stalled');
      const { promise, resolve } = Promise.withResolvers<PermitOrStall>();
      if (waiting.isEmpty()) givenAt = performance.now();
      waiting.add(app, { size, resolve });
      give();
      return promise;
    },
    refuseAll,
    isUnused: (): boolean =>
      waiting.isEmpty() && writes.unusedMs() > FORGET_MS && receipts.areUnused(),
  };
}

/** Creates the permit of a dispatch that has room for what its gateway writes and for the receipts. */
function createPermit(
  write: Room,
  receipt: Room,
  { onRoom, onStall }: { onRoom(): void; onStall(): void },
): Permit {
  const progress = createProgress();
  let isReported = false;
  function release(): void {
    write.release();
    receipt.release();
    onRoom();
  }
  function recordResult(result: DeliveryResult, recipients: number): void {
    progress.record(result, recipients);
    const missing = write.size() - progress.ended();
    // A gateway does not report a message to one recipient as handled.
    if (missing <= 0) write.release();
    if (progress.acknowledged() < missing) return;
    if (result === 'acknowledged') receipt.end();
    else if (result === 'unacked') receipt.endUnmeasured();
    else receipt.release();
  }
  return {
    sent(recipients) {
      write.sent(recipients);
      receipt.sent(recipients);
      onRoom();
    },
    record(report, recipients) {
      isReported = true;
      if (report === 'handled') write.end();
      else recordResult(report, recipients);
      onRoom();
    },
    release,
    stalled() {
      // It works on the dispatch or has handled it, and only results are missing.
      if (isReported) return;
      onStall();
      release();
    },
  };
}

/** Creates the windows of the apps at one gateway. */
function createReceiptWindows(sizes: WindowSizes) {
  const windows = new Map<string, Window>();
  const isUnused = (window: Window): boolean => window.unusedMs() > FORGET_MS;
  return {
    /** Returns the window of an app; the first one follows from a dispatch to so many recipients. */
    of(app: string, size: number): Window {
      const known = windows.get(app);
      if (known !== undefined) return known;
      for (const [other, window] of windows) if (isUnused(window)) windows.delete(other);
      const created = createReceiptWindow(sizes, size);
      windows.set(app, created);
      return created;
    },
    areUnused: (): boolean => [...windows.values()].every(isUnused),
  };
}

/** Room of a dispatch in a window. */
type Room = ReturnType<typeof takeRoom>;

/** Takes room in a window. @param isWanted dispatches wait for room in the window */
function takeRoom(window: Window, requested: number, isWanted: () => boolean) {
  let size = requested;
  let sentAt = performance.now();
  let isHeld = true;
  window.take(size);
  function release(): void {
    if (!isHeld) return;
    isHeld = false;
    window.release(size);
  }
  return {
    size: (): number => size,
    release,
    /** Gives back the room of recipients that are left out. */
    sent(recipients: number): void {
      sentAt = performance.now();
      if (isHeld) window.release(size - recipients);
      size = recipients;
    },
    /** Releases the room, and lets the window follow the time that the dispatch took. */
    end(): void {
      if (isHeld) window.observe(sentAt, size, isWanted());
      release();
    },
    /**
     * Releases the room of a dispatch whose devices are gone, or slower than any queue that the windows allow: its time
     * measures nothing.
     */
    endUnmeasured(): void {
      if (isHeld && isWanted()) window.grow(size);
      release();
    },
  };
}

/** Creates the counts of the results of a dispatch. */
function createProgress() {
  let acknowledged = 0;
  let others = 0;
  return {
    record(result: DeliveryResult, recipients: number): void {
      if (result === 'acknowledged') acknowledged += recipients;
      else others += recipients;
    },
    acknowledged: (): number => acknowledged,
    ended: (): number => acknowledged + others,
  };
}

/** Creates queues of waiters, one for each app, that take turns. */
function createTurns() {
  /** In the order of their turns. */
  const queues = new Map<string, Waiter[]>();
  return {
    isEmpty: (): boolean => queues.size === 0,
    add(app: string, waiter: Waiter): void {
      const queue = queues.get(app);
      if (queue === undefined) queues.set(app, [waiter]);
      else queue.push(waiter);
    },
    /** Returns the first waiter of an app. */
    head: (app: string): Waiter | undefined => queues.get(app)?.[0],
    /** Returns the first app in turn whose first waiter passes the check. */
    findApp(passes: (app: string, waiter: Waiter) => boolean): string | undefined {
      for (const [app, [first]] of queues)
        if (first !== undefined && passes(app, first)) return app;
      return undefined;
    },
    /** Removes the first waiter of an app, whose next turn comes after those of all others. */
    shift(app: string): Waiter | undefined {
      const queue = queues.get(app);
      const waiter = queue?.shift();
      queues.delete(app);
      if (queue !== undefined && queue.length > 0) queues.set(app, queue);
      return waiter;
    },
    /** Removes and returns all waiters. */
    removeAll(): Waiter[] {
      const all = [...queues.values()].flat();
      queues.clear();
      return all;
    },
  };
}
