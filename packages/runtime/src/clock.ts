/** Monotonic clock and timers of a process; a test has its own. */
export interface Clock {
  /** Returns milliseconds. */
  now(): number;
  /** Calls `run` after `ms` milliseconds, and returns a function that prevents it. */
  after(ms: number, run: () => void): () => void;
  /** Calls `tick` every `ms` milliseconds, and returns a function that stops it. */
  every(ms: number, tick: () => void): () => void;
}

/** Its timers keep no process running. */
export const PROCESS_CLOCK: Clock = {
  now: () => performance.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms).unref();
    return () => clearTimeout(timer);
  },
  every(ms, tick) {
    const timer = setInterval(tick, ms).unref();
    return () => clearInterval(timer);
  },
};

/** Returns the CPU time that the process has used since its start, in milliseconds, of all its threads together. */
export function readCpuMs(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1_000;
}
