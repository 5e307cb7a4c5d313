import { setTimeout as sleep } from 'node:timers/promises';

/** Longest time for which suspected batches delay all other work, and the time that other work has afterwards. */
const MAX_PHASE_MS = 5_000;
const PAUSE_MS = 1_000;

/** Separates work that is suspected of ending its process from all other work of the process. */
export type Isolation = ReturnType<typeof createIsolation>;

/** Creates the isolation of a process. Work that runs together costs a comparison and two additions. */
export function createIsolation() {
  let running = 0;
  let waitingForTurn = 0;
  let turn: Promise<unknown> = Promise.resolve();
  let phase: { startedAt: number; ended: PromiseWithResolvers<void> } | undefined;
  let phaseEndedAt = Number.NEGATIVE_INFINITY;
  let whenIdle: PromiseWithResolvers<void> | undefined;

  function endRun(): void {
    running -= 1;
    if (running === 0) whenIdle?.resolve();
  }

  async function beginPhase(): Promise<void> {
    await sleep(Math.max(0, phaseEndedAt + PAUSE_MS - performance.now()));
    phase = { startedAt: performance.now(), ended: Promise.withResolvers() };
    whenIdle = Promise.withResolvers();
    if (running > 0) await whenIdle.promise;
    phase.startedAt = performance.now();
  }

  function endPhase(): void {
    phase?.ended.resolve();
    phase = undefined;
    whenIdle = undefined;
    phaseEndedAt = performance.now();
  }

  async function takeTurn<T>(work: () => Promise<T>): Promise<T | undefined> {
    if (phase === undefined) await beginPhase();
    const isOver = phase !== undefined && performance.now() - phase.startedAt > MAX_PHASE_MS;
    return isOver ? undefined : await work();
  }

  return {
    /** Runs work beside other such work, once no suspected work runs. */
    async runTogether<T>(work: () => Promise<T>): Promise<T> {
      while (phase !== undefined) await phase.ended.promise;
      running += 1;
      try {
        return await work();
      } finally {
        endRun();
      }
    },

    /**
     * Runs work while nothing else runs, after the work that began before. Suspected work runs one by one; undefined: it had
     * no turn, because the others have delayed all other work for long enough.
     */
    async runAlone<T>(work: () => Promise<T>): Promise<T | undefined> {
      waitingForTurn += 1;
      const result = turn.then(() => takeTurn(work));
      turn = result.catch(() => undefined);
      try {
        return await result;
      } finally {
        waitingForTurn -= 1;
        if (waitingForTurn === 0) endPhase();
      }
    },

    /** Checks whether suspected work waits for the work in progress to end. */
    isInterrupting: (): boolean => phase !== undefined,
  };
}
