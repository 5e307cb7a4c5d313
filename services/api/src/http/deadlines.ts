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
 * that starting and ending one, which each request does several times, costs no more than an entry of a linked list. A
 * set would grow and shrink its table all the time.
 */
class Deadlines<T> {
  readonly #onExpired: (owner: T) => void;
  /** The last one that was started or continued; the others follow it. */
  #firstRunning: RunningDeadline<T> | undefined;
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
    deadline.previous = undefined;
    deadline.next = this.#firstRunning;
    if (deadline.next !== undefined) deadline.next.previous = deadline;
    this.#firstRunning = deadline;
    if (this.#timer !== undefined) return;
    this.#lastTickAt = performance.now();
    this.#timer = setInterval(() => this.#tick(), TICK_MS).unref();
  }

  remove(deadline: RunningDeadline<T>): void {
    const { previous, next } = deadline;
    if (previous === undefined) this.#firstRunning = next;
    else previous.next = next;
    if (next !== undefined) next.previous = previous;
    deadline.previous = undefined;
    deadline.next = undefined;
  }

  #tick(): void {
    this.#elapsedMs = this.now();
    this.#lastTickAt = performance.now();
    for (const deadline of this.#listDue()) {
      // The expiry of another one may have ended it.
      if (!deadline.isRunning) continue;
      deadline.end();
      this.#onExpired(deadline.owner);
    }
    if (this.#firstRunning !== undefined) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #listDue(): RunningDeadline<T>[] {
    const due: RunningDeadline<T>[] = [];
    for (let deadline = this.#firstRunning; deadline !== undefined; deadline = deadline.next) {
      if (deadline.dueAt <= this.#elapsedMs) due.push(deadline);
    }
    return due.reverse();
  }
}

class RunningDeadline<T> implements Deadline {
  readonly owner: T;
  readonly #deadlines: Deadlines<T>;
  #remainingMs: number;
  isRunning = false;
  /** By the clock of the deadlines. */
  dueAt = 0;
  /** The neighbours in the list of running deadlines. */
  previous: RunningDeadline<T> | undefined = undefined;
  next: RunningDeadline<T> | undefined = undefined;

  constructor(deadlines: Deadlines<T>, ms: number, owner: T) {
    this.#deadlines = deadlines;
    this.#remainingMs = ms;
    this.owner = owner;
    this.resume();
  }

  pause(): void {
    if (!this.isRunning) return;
    this.#remainingMs = this.dueAt - this.#deadlines.now();
    this.end();
  }

  resume(extraMs = 0): void {
    this.#remainingMs += extraMs;
    if (!this.isRunning) this.#deadlines.add(this);
    this.isRunning = true;
    this.dueAt = this.#deadlines.now() + this.#remainingMs;
  }

  end(): void {
    if (!this.isRunning) return;
    this.isRunning = false;
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
