/** Sizes of a window, in recipients. */
export interface WindowSizes {
  initial: number;
  min: number;
  max: number;
}

/** A dispatch that was handled later than this was close to its write deadline: the window shrinks. */
const SLOW_WRITES_MS = 250;
/** A dispatch that was handled sooner leaves room for more: the window grows. */
const FAST_WRITES_MS = 120;
/**
 * Receipts that take so much longer than the fastest of the last seconds wait for others: the window shrinks, before devices
 * that acknowledge at once miss the second that a gateway waits for them.
 */
const SLOW_RECEIPTS_MS = 300;
/** Receipts that take hardly longer leave room for more: the window grows. */
const FAST_RECEIPTS_MS = 100;
/** Dispatches of an app that are sent to a gateway before the receipts of the first are there, if they are more than `initial`. */
const INITIAL_DISPATCHES = 12;
/** Dispatches to fewer recipients are no measure for others: they end sooner in any case. */
const MIN_MEASURE = 50;
/** Time for which the fastest receipts count, at most twice: then devices on slow links count as fast. */
const FASTEST_OF_MS = 3_000;

/** A bound of the recipients in flight, which follows the times that dispatches take. */
export type Window = ReturnType<typeof createWindow>;

/** Creates the window of the recipients whose dispatches a gateway has not handled yet. */
export function createWriteWindow(sizes: WindowSizes): Window {
  return createWindow(sizes, (tookMs) => {
    if (tookMs > SLOW_WRITES_MS) return 'shrink';
    return tookMs < FAST_WRITES_MS ? 'grow' : undefined;
  });
}

/**
 * Creates the window of the recipients whose receipts are missing yet.
 *
 * @param first recipients of the first dispatch
 */
export function createReceiptWindow(sizes: WindowSizes, first: number): Window {
  const fastest = createRecentMinimum(FASTEST_OF_MS);
  const initial = Math.min(sizes.max, Math.max(sizes.initial, INITIAL_DISPATCHES * first));
  return createWindow({ ...sizes, initial }, (tookMs, size) => {
    if (size >= MIN_MEASURE) fastest.add(tookMs);
    const delayMs = tookMs - fastest.get();
    if (delayMs > SLOW_RECEIPTS_MS) return 'shrink';
    return delayMs < FAST_RECEIPTS_MS ? 'grow' : undefined;
  });
}

function createWindow(
  { initial, min, max }: WindowSizes,
  judge: (tookMs: number, size: number) => 'shrink' | 'grow' | undefined,
) {
  let maxTaken = initial;
  let taken = 0;
  /** Dispatches that were sent before the window shrank say nothing about its size. */
  let shrunkAt = Number.NEGATIVE_INFINITY;
  let usedAt = performance.now();

  function grow(by: number): void {
    maxTaken = Math.min(max, maxTaken + by);
  }

  return {
    /** A dispatch that is larger than the window goes alone. */
    hasRoom: (size: number): boolean => taken === 0 || taken + size <= maxTaken,
    take(size: number): void {
      taken += size;
      usedAt = performance.now();
    },
    release(size: number): void {
      taken -= size;
      usedAt = performance.now();
    },
    /**
     * Observes the end of a dispatch of this size.
     *
     * @param sentAt by the monotonic clock
     * @param isWanted dispatches wait for room: without them the window does not grow
     */
    observe(sentAt: number, size: number, isWanted: boolean): void {
      const change = judge(performance.now() - sentAt, size);
      if (change === 'grow' && isWanted) grow(size / 2);
      if (change !== 'shrink' || sentAt <= shrunkAt) return;
      maxTaken = Math.max(min, maxTaken / 2);
      shrunkAt = performance.now();
    },
    grow,
    reset(): void {
      maxTaken = min;
    },
    /** Returns the milliseconds for which nothing was in the window. */
    unusedMs: (): number => (taken === 0 ? performance.now() - usedAt : 0),
  };
}

/** Creates the minimum of the values of the last one to two intervals; infinite without a value. */
function createRecentMinimum(intervalMs: number) {
  let previous = Number.POSITIVE_INFINITY;
  let current = Number.POSITIVE_INFINITY;
  let startedAt = performance.now();

  function forgetOld(): void {
    const ageMs = performance.now() - startedAt;
    if (ageMs <= intervalMs) return;
    previous = ageMs > 2 * intervalMs ? Number.POSITIVE_INFINITY : current;
    current = Number.POSITIVE_INFINITY;
    startedAt = performance.now();
  }

  return {
    add(value: number): void {
      forgetOld();
      current = Math.min(current, value);
    },
    get(): number {
      forgetOld();
      return Math.min(previous, current);
    },
  };
}
