/** A timer may run a little early, and must not run for the same moment again. */
const MIN_DELAY_MS = 5;

/**
 * Runs a step at the multiples of an interval on the clock of the process, so that the periodic steps of a process share its
 * wake-ups: at rest, these are most of its CPU time. The first step comes within the interval.
 *
 * @param keepsAlive false: the process may end meanwhile
 * @returns a function that ends it
 */
export function startAlignedInterval(
  step: () => void,
  intervalMs: number,
  { keepsAlive = true }: { keepsAlive?: boolean } = {},
): () => void {
  let timer: NodeJS.Timeout;
  function arm(): void {
    // Whole milliseconds, as timers have them: those that run together stay together.
    const untilNextMs = Math.ceil(intervalMs - (performance.now() % intervalMs));
    timer = setTimeout(run, untilNextMs < MIN_DELAY_MS ? untilNextMs + intervalMs : untilNextMs);
    if (!keepsAlive) timer.unref();
  }
  function run(): void {
    arm();
    step();
  }
  arm();
  return () => clearTimeout(timer);
}
