import { resultWithin, withTimeout } from '@carillon/core/with-timeout';

/** Maximum age of progress that needs no check of Redis or MongoDB. */
const RECENT_MS = 5_000;
/**
 * Time without progress of a loop after which the process is unready. It is longer than the 10 s after which a Redis
 * connection without responses is replaced.
 */
const UNREADY_AFTER_MS = 15_000;
/**
 * Time without progress of a loop after which the process is restarted. A restart interrupts the work in progress, so
 * an unready process gets as much time again to recover.
 */
const DEAD_AFTER_MS = 30_000;
/** Maximum gap between two checks. A longer one may hide an outage, so the time without progress starts anew. */
const MAX_CHECK_GAP_MS = 20_000;
/** Time for which several probes share a check. */
const CACHE_MS = 1_000;
/** Timeout of the calls of a check. */
const EXPECTED_TIMEOUT_MS = 3_000;
/** Maximum wait of a probe for the check: a probe has often only 1 s, and the last result is as good. */
const PROBE_WAIT_MS = 250;

/** A loop of the process: progress is expected while it has work and MongoDB and Redis respond. */
export interface WatchedLoop {
  name: string;
  /** Returns the time of the last progress by the monotonic clock (`performance.now()`); costs next to nothing. */
  lastProgressAt(): number;
  /**
   * Resolves to whether progress is expected now: there is work that the loop may take, and the servers it needs
   * respond. A rejection counts as no. Called only while there is no recent progress.
   */
  isExpected(): Promise<boolean>;
}

/** Result of a check: names of the loops without progress. */
export interface ProgressResult {
  /** Loops without progress for too long for new work to be sent to the process. */
  unready: readonly string[];
  /** Loops without progress for so long that only a restart helps. */
  dead: readonly string[];
}

/** Last time of an activity or a loop of a process, as its probes report it. */
export interface LastProgress {
  name: string;
  /**
   * Seconds since it last happened, or since the start of a loop that has made no progress, to a tenth; null means
   * never.
   */
  secondsAgo: number | null;
  /** `unready` keeps the process from being ready, `dead` also from being alive. */
  state: 'ok' | 'unready' | 'dead';
}

/** Converts milliseconds to seconds with one decimal place. */
export const toTenths = (ms: number): number => Math.max(0, Math.round(ms / 100)) / 10;

/** Judges the progress of a process's loops. */
export type Progress = ReturnType<typeof createProgress>;

interface LoopState {
  loop: WatchedLoop;
  /** First of the checks in a row in which progress was expected and none was made. */
  stillSince: number | undefined;
}

/**
 * Creates the progress check of a process's loops. It checks only when it is called, and queries Redis or MongoDB only
 * for a loop without recent progress. The time without progress counts from the first check that expected progress, so
 * that an outage, an idle hour or a suspended process never counts.
 *
 * @param now returns milliseconds of a monotonic clock
 */
export function createProgress({ now = () => performance.now() }: { now?: () => number } = {}) {
  const states: LoopState[] = [];
  /** Activities that are reported and not judged, with the time of the last one. */
  const activities = new Map<string, number | undefined>();
  let result: ProgressResult = { unready: [], dead: [] };
  let checkedAt = Number.NEGATIVE_INFINITY;
  let checking: Promise<void> | undefined;

  async function checkLoop(state: LoopState, isGap: boolean): Promise<number> {
    const { loop } = state;
    const isExpected =
      now() - loop.lastProgressAt() > RECENT_MS &&
      (await withTimeout(loop.isExpected(), EXPECTED_TIMEOUT_MS, loop.name).catch(() => false));
    const at = now();
    if (!isExpected) state.stillSince = undefined;
    else if (isGap) state.stillSince = at;
    else state.stillSince ??= at;
    return state.stillSince === undefined
      ? 0
      : at - Math.max(state.stillSince, loop.lastProgressAt());
  }

  async function checkAll(): Promise<void> {
    const isGap = now() - checkedAt > MAX_CHECK_GAP_MS;
    checkedAt = now();
    const stillMs = await Promise.all(states.map((state) => checkLoop(state, isGap)));
    const longerThan = (ms: number) =>
      states.filter((_, index) => (stillMs[index] ?? 0) >= ms).map(({ loop }) => loop.name);
    result = { unready: longerThan(UNREADY_AFTER_MS), dead: longerThan(DEAD_AFTER_MS) };
  }

  function stateOf(name: string): LastProgress['state'] {
    if (result.dead.includes(name)) return 'dead';
    return result.unready.includes(name) ? 'unready' : 'ok';
  }

  return {
    /** Adds a loop. */
    watch(loop: WatchedLoop): void {
      states.push({ loop, stillSince: undefined });
    },
    /**
     * Adds an activity that is reported and never judged, because it depends on clients. Returns the function to call
     * when it has happened; it costs next to nothing.
     */
    trackActivity(name: string): () => void {
      activities.set(name, undefined);
      return () => void activities.set(name, now());
    },
    /** Lists all activities and loops, with the states of the last check. */
    list(): LastProgress[] {
      const lastTimes: [name: string, lastAt: number | undefined][] = [
        ...activities,
        ...states.map(({ loop }) => [loop.name, loop.lastProgressAt()] as [string, number]),
      ];
      return lastTimes.map(([name, lastAt]) => ({
        name,
        secondsAgo: lastAt === undefined ? null : toTenths(now() - lastAt),
        state: stateOf(name),
      }));
    },
    /** Checks all loops, at most once a second, and returns the result within 250 ms, otherwise the one before it. */
    async check(): Promise<ProgressResult> {
      if (checking === undefined && now() - checkedAt >= CACHE_MS) {
        checking = checkAll().finally(() => {
          checking = undefined;
        });
      }
      if (checking !== undefined) await resultWithin(checking, PROBE_WAIT_MS, undefined);
      return result;
    },
  };
}
