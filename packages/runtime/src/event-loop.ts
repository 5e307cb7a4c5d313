import { startInterval } from '@carillon/core/intervals';

const BEAT_INTERVAL_MS = 1_000;
/**
 * Delay of a beat above which it counts as late: such an event loop can't keep a response time of 3 s (guarantee G15).
 */
const LATE_MS = 2_000;
/** Time since the first late beat in a row after which the process is unready. */
const UNREADY_AFTER_MS = 10_000;
/**
 * Time since the first late beat in a row after which the process is dead, as for other loops. By then every request
 * breaks G15.
 */
const DEAD_AFTER_MS = 30_000;
/** Minimum late beats in a row: one long pause (a suspended process or machine) is over when it is detected. */
const MIN_LATE_BEATS = 3;

/** Judges the event loop by a timer's lateness. */
export type EventLoopWatch = ReturnType<typeof createEventLoopWatch>;

/**
 * Creates the judge of the event loop: it is blocked again and again when its timer's beats are late by 2 s in a row.
 * A loop that is blocked once for long does not respond to a probe, which the probe's own timeout detects.
 *
 * @param now returns milliseconds of a monotonic clock
 */
export function createEventLoopWatch(now: () => number = () => performance.now()) {
  let lastBeatAt = now();
  let lateBeats = 0;
  let lateSince = lastBeatAt;

  return {
    /** Records a beat of the timer. */
    beat(): void {
      const at = now();
      const isLate = at - lastBeatAt > BEAT_INTERVAL_MS + LATE_MS;
      if (!isLate) lateBeats = 0;
      else if (lateBeats++ === 0) lateSince = lastBeatAt;
      lastBeatAt = at;
    },
    /** Returns the milliseconds since the last beat. */
    measureBeatAge: (): number => now() - lastBeatAt,
    /** Checks whether the loop has been late all the time: for 10 s (unready), for 30 s (dead). */
    state(): 'ok' | 'unready' | 'dead' {
      if (lateBeats < MIN_LATE_BEATS) return 'ok';
      const lateMs = lastBeatAt - lateSince;
      if (lateMs >= DEAD_AFTER_MS) return 'dead';
      return lateMs >= UNREADY_AFTER_MS ? 'unready' : 'ok';
    },
  };
}

/** Starts the timer of a watch. Returns a function that stops it. */
export function startBeats(watch: EventLoopWatch): () => void {
  return startInterval(watch.beat, BEAT_INTERVAL_MS);
}
