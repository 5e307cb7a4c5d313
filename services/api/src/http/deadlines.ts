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
 * Deadlines of a process. They count only time in which the process ran: a process that was frozen fails none of its
 * requests. One timer serves all deadlines; it runs only while there are any. A tick checks every running deadline, so
 * that starting and ending one, which each request does, costs no more than an entry of a set.
 */
class Deadlines<T> {
  readonly #onExpired: (owner: T) => void;
  readonly #running = new Set<RunningDeadline<T>>();
  #elapsedMs = 0;
  #lastTickAt = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(onExpired: (owner: T) => void) {
    this.#onExpired = onExpired;
  }

  /** Returns the time for which the process has run while there were deadlines, in milliseconds. */
  now(): number {
    const sinceTickMs = performance.now() - this.#lastTickAt;
    return (
      this.#elapsedMs + (sinceTickMs > STALL_THRESHOLD_MS ? MAX_COUNTED_STALL_MS : sinceTickMs)
    );
  }

  add(deadline: RunningDeadline<T>): void {
    this.#running.add(deadline);
    if (this.#timer !== undefined) return;
    this.#lastTickAt = performance.now();
    this.#timer = setInterval(() => this.#tick(), TICK_MS).unref();
  }

  remove(deadline: RunningDeadline<T>): void {
    this.#running.delete(deadline);
  }

  #tick(): void {
    this.#elapsedMs = this.now();
    this.#lastTickAt = performance.now();
    for (const deadline of this.#running) {
      if (deadline.dueAt > this.#elapsedMs) continue;
      deadline.end();
      this.#onExpired(deadline.owner);
    }
    if (this.#running.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}

class RunningDeadline<T> implements Deadline {
  readonly owner: T;
  readonly #deadlines: Deadlines<T>;
  #remainingMs: number;
  #isRunning = false;
  /** By the clock of the deadlines. */
  dueAt = 0;

  constructor(deadlines: Deadlines<T>, ms: number, owner: T) {
    this.#deadlines = deadlines;
    this.#remainingMs = ms;
    this.owner = owner;
    this.resume();
  }

  pause(): void {
    if (!this.#isRunning) return;
    this.#remainingMs = this.dueAt - this.#deadlines.now();
    this.end();
  }

  resume(extraMs = 0): void {
    this.#isRunning = true;
    this.#remainingMs += extraMs;
    this.#deadlines.add(this);
    this.dueAt = this.#deadlines.now() + this.#remainingMs;
  }

  end(): void {
    this.#isRunning = false;
    this.#deadlines.remove(this);
  }
}

/**
 * Creates the deadlines of a process.
 *
 * @param onExpired is called with the owner of each deadline that passes before its end
 * @returns a function that starts a deadline of `ms` milliseconds
 */
export function createDeadlines<T>(onExpired: (owner: T) => void) {
  const deadlines = new Deadlines<T>(onExpired);
  return (ms: number, owner: T): Deadline => new RunningDeadline(deadlines, ms, owner);
}
