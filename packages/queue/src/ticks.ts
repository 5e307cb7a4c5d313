import { startInterval } from '@carillon/core/intervals';
import { createRedis } from '@carillon/presence/redis';
import { tickKey } from './queue-keys.ts';
import type { WorkerSettings } from './workers.ts';

/** Periodic task of the schedulers. */
export type Task = 'reconcile' | 'clean' | 'prune';

/** Duration of a claim as a share of the interval: it ends before the next tick of the process, which may be a little early. */
const CLAIMED_SHARE = 0.75;

/** The ticks of a process. */
export type Ticks = ReturnType<typeof startTicks>;

/**
 * Runs the periodic tasks. A tick is claimed in Redis, so one of several processes runs it: the next tick of a task follows within
 * an interval, or within two if the process ends. BullMQ's job schedulers are no replacement: a process with a fast clock would
 * postpone the next tick. A process runs each task once at a time. While Redis is unavailable there are no ticks. A tick that
 * fails is reported.
 *
 * @param intervalsMs interval of each task
 */
export function startTicks(
  { redis, onError }: WorkerSettings,
  intervalsMs: Readonly<Record<Task, number>>,
  run: (task: Task) => Promise<void>,
) {
  // A claim waits for its response however long that takes: repeated meanwhile, it would take the ticks of other processes.
  const connection = createRedis(redis, 'worker', onError);
  /** Tasks that are claimed, or run. */
  const busy = new Set<Task>();
  const running = new Set<Promise<void>>();
  let respondedAt = performance.now();
  let isStopped = false;

  async function tick(task: Task): Promise<void> {
    const claimedMs = intervalsMs[task] * CLAIMED_SHARE;
    const response = await connection.set(tickKey(connection, task), 1, 'PX', claimedMs, 'NX');
    respondedAt = performance.now();
    if (response !== 'OK' || isStopped) return;
    const ending = run(task).catch(onError);
    running.add(ending);
    await ending;
    running.delete(ending);
  }

  function tickUnlessBusy(task: Task): void {
    // While Redis is unavailable, the connection would queue the claim.
    if (busy.has(task) || connection.status !== 'ready') return;
    busy.add(task);
    tick(task)
      // The end of the connection ends a claim.
      .catch((error: Error) => {
        if (!isStopped) onError(error);
      })
      .finally(() => busy.delete(task));
  }

  const tasks = Object.keys(intervalsMs) as Task[];
  const stops = tasks.map((task) => startInterval(() => tickUnlessBusy(task), intervalsMs[task]));
  return {
    /** Returns when Redis last responded to a claim, or now while a task runs, by the monotonic clock (`performance.now()`). */
    lastProgressAt: (): number => (running.size > 0 ? performance.now() : respondedAt),
    /** Begins no more ticks, waits for those in progress, and closes the connection. */
    async stop(): Promise<void> {
      isStopped = true;
      for (const stop of stops) stop();
      await Promise.all(running);
      connection.disconnect();
    },
  };
}
