import { type Clock, PROCESS_CLOCK } from '@carillon/runtime/clock';

/** Interval between two checks of the deadlines. */
const TICK_MS = 100;
/** Maximum gap between two ticks of a process that was not frozen. A busy machine delays ticks by less. */
const STALL_THRESHOLD_MS = 500;
/** Time of a freeze that counts towards deadlines. */
const MAX_COUNTED_STALL_MS = 200;

/** Clock of the deadlines. */
export type TickingClock = Pick<Clock, 'now' | 'every'>;

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
 * Creates the deadlines of a process. They count only time in which the process ran: a process that was frozen fails none
 * of its requests. One timer serves all deadlines; it runs only while there are any.
 *
 * @param onExpired is called with the owner of each deadline that passes before its end
 * @returns a function that starts a deadline of `ms` milliseconds
 */
export function createDeadlines<T>(
  onExpired: (owner: T) => void,
  clock: TickingClock = PROCESS_CLOCK,
) {
  /** The deadlines that are not paused; `remainingMs` is that at the last tick. */
  const running = new Set<{ owner: T; remainingMs: number }>();
  let lastTickAt = 0;
  let stopTicks: (() => void) | undefined;

  function measureSinceTick(): number {
    const ms = clock.now() - lastTickAt;
    return ms > STALL_THRESHOLD_MS ? MAX_COUNTED_STALL_MS : ms;
  }

  function tick(): void {
    const ms = measureSinceTick();
    lastTickAt = clock.now();
    for (const deadline of running) {
      deadline.remainingMs -= ms;
      if (deadline.remainingMs > 0) continue;
      running.delete(deadline);
      onExpired(deadline.owner);
    }
    if (running.size > 0) return;
    stopTicks?.();
    stopTicks = undefined;
  }

  return (ms: number, owner: T): Deadline => {
    const deadline = { owner, remainingMs: ms };

    function pause(): void {
      if (running.delete(deadline)) deadline.remainingMs -= measureSinceTick();
    }

    function resume(extraMs = 0): void {
      deadline.remainingMs += extraMs;
      if (running.has(deadline)) return;
      if (stopTicks === undefined) {
        lastTickAt = clock.now();
        stopTicks = clock.every(TICK_MS, tick);
      }
      deadline.remainingMs += measureSinceTick();
      running.add(deadline);
    }

    resume();
    return { pause, resume, end: () => void running.delete(deadline) };
  };
}
