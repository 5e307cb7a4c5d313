import { startInterval } from '@carillon/core/intervals';
import { createRedis, type Redis } from '@carillon/presence/redis';
import { Queue } from 'bullmq';
import { type MaintenanceJob, NO_VERSION_CHECK } from './jobs.ts';
import { queuePrefix } from './queue-keys.ts';
import { closeWithin, type WorkerSettings } from './workers.ts';

/*
 * Schedulers share the ticks: before each one a process claims it in Redis, by one command, and all others leave it out. A job
 * scheduler of BullMQ takes ten scripts for each tick.
 */

/** Periodic task of the schedulers. */
export type Task = MaintenanceJob['task'];

/**
 * A tick is left out if there was one within this part of the interval. The rest is for the timer of the same process, whose
 * command reaches Redis a little earlier or later than a whole interval after the one before.
 */
const CLAIMED_SHARE = 0.75;
/** The key of a task shows for this time that a process has ticked; no interval is longer. */
const CLAIM_TTL_MS = 5_000;
/** At most so many tasks run in a process at once: cleaning must not delay due pushes. */
const MAX_RUNNING = 2;
/** Interval in which the job schedulers of the previous release are removed: it writes them again while it runs. */
const REMOVE_EVERY_MS = 600_000;

/** KEYS: the task's key. ARGV: milliseconds to live, and for which no other tick is claimed. Returns 1 if the tick is claimed. */
const CLAIM_SCRIPT = `
if redis.call('PTTL', KEYS[1]) > ARGV[1] - ARGV[2] then return 0 end
redis.call('SET', KEYS[1], 1, 'PX', ARGV[1])
return 1`;

/** Returns the key of a task. */
const tickKey = (task: Task): string => `tick:${task}`;

/**
 * Checks whether no process has claimed a tick of a task for 5 s.
 *
 * @throws if Redis fails
 */
export async function isTickOverdue(redis: Redis, task: Task): Promise<boolean> {
  return (await redis.exists(tickKey(task))) === 0;
}

/** The ticks of a process. */
export type Ticks = ReturnType<typeof startTicks>;

/**
 * Runs the periodic tasks. Of several processes one runs each tick: the next one comes between 0.75 and 1 interval later, and
 * within 1.75 intervals if its process ends. While Redis is unavailable there is none. A tick that fails is reported.
 *
 * @param intervalsMs interval of each task
 */
export function startTicks(
  { redis, onError }: WorkerSettings,
  intervalsMs: Readonly<Record<Task, number>>,
  run: (task: Task) => Promise<void>,
) {
  const connection = createRedis(redis, 'producer', onError);
  const stopRemoving = removeJobSchedulers(connection, onError);
  const running = new Set<Promise<void>>();
  let lastProgressAt = performance.now();
  let isStopped = false;

  async function claim(task: Task): Promise<boolean> {
    const claimedMs = intervalsMs[task] * CLAIMED_SHARE;
    const key = tickKey(task);
    const claimed = await connection.eval(CLAIM_SCRIPT, 1, key, CLAIM_TTL_MS, claimedMs);
    lastProgressAt = performance.now();
    return claimed === 1 && !isStopped;
  }

  async function tick(task: Task): Promise<void> {
    if (await claim(task)) await run(task);
  }

  function startTick(task: Task): void {
    // A process whose tasks take long leaves the ticks to others.
    if (running.size >= MAX_RUNNING) lastProgressAt = performance.now();
    // The connection would fail every command.
    else if (connection.status === 'ready') {
      const ticking: Promise<void> = tick(task)
        .catch(onError)
        .finally(() => running.delete(ticking));
      running.add(ticking);
    }
  }

  const stops = Object.entries(intervalsMs).map(([task, intervalMs]) =>
    startInterval(() => startTick(task as Task), intervalMs),
  );
  return {
    /** Returns when Redis last responded to a claim, or all slots were taken, by the monotonic clock (`performance.now()`). */
    lastProgressAt: (): number => lastProgressAt,
    /** Begins no more ticks, waits for those in progress, and closes the connection. */
    async stop(): Promise<void> {
      isStopped = true;
      for (const stop of stops) stop();
      await Promise.all(running);
      await stopRemoving();
    },
  };
}

/**
 * Removes the job schedulers by which the previous release ticks, now and every ten minutes: left behind, they would add a
 * second tick to each.
 *
 * @returns a function that ends it and closes the connection
 */
function removeJobSchedulers(
  connection: Redis,
  onError: WorkerSettings['onError'],
): () => Promise<void> {
  const queue = new Queue('maintenance', {
    connection,
    prefix: queuePrefix(connection, 'maintenance'),
    skipMetasUpdate: true,
    ...NO_VERSION_CHECK,
  });
  queue.on('error', onError);
  const remove = (): void => {
    if (connection.status !== 'ready') return;
    const tasks: readonly Task[] = ['reconcile', 'clean'];
    Promise.all(tasks.map((task) => queue.removeJobScheduler(task))).catch(onError);
  };
  connection.on('ready', remove);
  const stop = startInterval(remove, REMOVE_EVERY_MS);
  return async () => {
    stop();
    await closeWithin(queue.close(), connection, onError);
  };
}
