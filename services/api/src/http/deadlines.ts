const TICK_MS = 100;
/** Longer gaps between two ticks mean that the process was frozen. A busy machine delays ticks by less. */
const STALL_THRESHOLD_MS = 500;
/** Part of a freeze that counts towards deadlines. */
const MAX_COUNTED_STALL_MS = 200;

/** Deadline of one request. */
export interface Deadline {
  /** Stops the clock, while the client is waited for. */
  pause(): void;
  /** Continues, with `extraMs` more. */
  resume(extraMs?: number): void;
  end(): void;
}

/** A request exceeded its deadline, which means that a database did not respond in time. */
export class DeadlineExceededError extends Error {}

/**
 * Creates the deadlines of a process. They count only time in which the process ran: a process that was frozen fails
 * none of its requests. One timer serves all deadlines; it runs only while there are any.
 */
export function createDeadlines() {
  /** Callbacks by the tick at which they are due. */
  const callbacksByTick = new Map<number, Set<() => void>>();
  let elapsedMs = 0;
  let lastTickAt = 0;
  let processedTick = 0;
  let timer: NodeJS.Timeout | undefined;

  function measureSinceTick(): number {
    const sinceTickMs = performance.now() - lastTickAt;
    return sinceTickMs > STALL_THRESHOLD_MS ? MAX_COUNTED_STALL_MS : sinceTickMs;
  }

  function tick(): void {
    elapsedMs += measureSinceTick();
    lastTickAt = performance.now();
    const currentTick = Math.floor(elapsedMs / TICK_MS);
    while (processedTick < currentTick) {
      processedTick += 1;
      const expired = callbacksByTick.get(processedTick);
      callbacksByTick.delete(processedTick);
      for (const onExpired of expired ?? []) onExpired();
    }
    if (callbacksByTick.size > 0) return;
    clearInterval(timer);
    timer = undefined;
  }

  function startTimer(): void {
    if (timer !== undefined) return;
    lastTickAt = performance.now();
    timer = setInterval(tick, TICK_MS);
    timer.unref();
  }

  /** Starts a deadline; `onExpired` is called after `ms` unless the deadline was ended. */
  return function startDeadline(ms: number, onExpired: () => void): Deadline {
    let remainingMs = ms;
    let startedAt = 0;
    let dueTick: number | undefined;
    const deadline: Deadline = {
      pause() {
        if (dueTick === undefined) return;
        remainingMs -= elapsedMs + measureSinceTick() - startedAt;
        deadline.end();
      },
      resume(extraMs = 0) {
        startTimer();
        remainingMs += extraMs;
        startedAt = elapsedMs + measureSinceTick();
        dueTick = Math.max(processedTick + 1, Math.ceil((startedAt + remainingMs) / TICK_MS));
        const callbacks = callbacksByTick.get(dueTick);
        if (callbacks === undefined) callbacksByTick.set(dueTick, new Set([onExpired]));
        else callbacks.add(onExpired);
      },
      end() {
        if (dueTick === undefined) return;
        const callbacks = callbacksByTick.get(dueTick);
        callbacks?.delete(onExpired);
        if (callbacks?.size === 0) callbacksByTick.delete(dueTick);
        dueTick = undefined;
      },
    };
    deadline.resume();
    return deadline;
  };
}
