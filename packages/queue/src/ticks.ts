import { startInterval } from '@carillon/core/intervals';
import { createRedis } from '@carillon/presence/redis';
import { tickKey } from './queue-keys.ts';
import type { WorkerSettings } from './workers.ts';

/** Periodic task of the schedulers. */
export type Task = 'reconcile' | 'clean';

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
  const claiming = new Set<Task>();
  const running = new Map<Task, Promise<void>>();
  let lastProgressAt = performance.now();
  let isStopped = false;

  async function claim(task: Task): Promise<boolean> {
    const claimedMs = intervalsMs[task] * CLAIMED_SHARE;
    const key = tickKey(connection, task);
    const response = await connection.set(key, 1, 'PX', claimedMs, 'NX');
    lastProgressAt = performance.now();
    return response === 'OK';
  }

  function startTask(task: Task): void {
    const ending = run(task)
      .catch(onError)
      .finally(() => running.delete(task));
    running.set(task, ending);
  }

  async function tick(task: Task): Promise<void> {
    if (running.has(task)) lastProgressAt = performance.now();
    // While Redis is unavailable, the connection would queue the command.
    else if (!claiming.has(task) && connection.status === 'ready') {
      claiming.add(task);
      const isClaimed = await claim(task).finally(() => claiming.delete(task));
      if (isClaimed && !isStopped) startTask(task);
    }
  }

  const stops = (Object.keys(intervalsMs) as Task[]).map((task) =>
    startInterval(() => void tick(task).catch(reportUnlessStopped), intervalsMs[task]),
  );
  /** The end of the connection ends a claim. */
  function reportUnlessStopped(error: Error): void {
    if (!isStopped) onError(error);
  }

  return {
    /** Returns when Redis last responded to a claim, or a task was running, by the monotonic clock (`performance.now()`). */
    lastProgressAt: (): number => lastProgressAt,
    /** Begins no more ticks, waits for those in progress, and closes the connection. */
    async stop(): Promise<void> {
      isStopped = true;
      for (const stop of stops) stop();
      await Promise.all(running.values());
      connection.disconnect();
    },
  };
}
