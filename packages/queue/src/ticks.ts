import { startInterval } from '@carillon/core/intervals';
import { createRedis, hashTag, type Redis } from '@carillon/presence/redis';
import { Queue } from 'bullmq';
import { type MaintenanceJob, NO_VERSION_CHECK } from './jobs.ts';
import { queuePrefix } from './queue-keys.ts';
import { closeWithin, type WorkerSettings } from './workers.ts';

/*
 * Schedulers share the ticks: before each one a process claims it in Redis, by one script, and all others leave it out. A job
 * scheduler of BullMQ takes ten scripts for each tick.
 */

/** Periodic task of the schedulers. */
export type Task = MaintenanceJob['task'];

/**
 * A tick is left out if there was one within this part of the interval. The rest is for the timer of the same process, whose
 * command reaches Redis a little earlier or later than a whole interval after the one before.
 */
const CLAIMED_SHARE = 0.75;
/** A process that has begun a tick tells so for this time; no interval is longer. */
const TICKED_MS = 5_000;
/** At most so many tasks run in a process at once: cleaning must not delay due pushes. */
const MAX_RUNNING = 2;
/** Interval in which the job schedulers of the previous release are removed: it writes them again while it runs. */
const REMOVE_EVERY_MS = 600_000;

/**
 * KEYS: claim, ticked. ARGV: milliseconds for which no other tick is claimed; milliseconds for which `ticked` is kept, 0 to leave
 * it as it is. Returns OK if the tick is claimed.
 */
const CLAIM_SCRIPT = `
if ARGV[2] ~= '0' then redis.call('SET', KEYS[2], 1, 'PX', ARGV[2]) end
return redis.call('SET', KEYS[1], 1, 'NX', 'PX', ARGV[1])`;

/** Returns the keys of a task. */
function tickKeys(redis: Redis, task: Task): { claim: string; ticked: string } {
  const group = hashTag(redis, 'ticks') ?? 'ticks';
  return {
    /** Exists while no other process may claim a tick. */
    claim: `${group}:${task}:claim`,
    /** Exists while a process has ticks, which it tells with its next claim: a claim alone may be one that got no response. */
    ticked: `${group}:${task}:ticked`,
  };
}

/**
 * Checks whether no process has begun a tick of a task for 5 s.
 *
 * @throws if Redis fails
 */
export async function isTickOverdue(redis: Redis, task: Task): Promise<boolean> {
  return (await redis.exists(tickKeys(redis, task).ticked)) === 0;
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
  // A claim waits for its response however long that takes: repeated meanwhile, it would take the ticks of other processes.
  const connection = createRedis(redis, 'worker', onError);
  const stopRemoving = removeJobSchedulers(connection, onError);
  const claiming = new Set<Task>();
  const running = new Set<Promise<void>>();
  /** Tasks whose last claim of this process has begun a tick. */
  const ticked = new Set<Task>();
  let lastProgressAt = performance.now();
  let isStopped = false;

  async function claim(task: Task): Promise<boolean> {
    const { claim: claimKey, ticked: tickedKey } = tickKeys(connection, task);
    const claimedMs = intervalsMs[task] * CLAIMED_SHARE;
    const tickedMs = ticked.delete(task) ? TICKED_MS : 0;
    const result = await connection.eval(CLAIM_SCRIPT, 2, claimKey, tickedKey, claimedMs, tickedMs);
    lastProgressAt = performance.now();
    return result === 'OK';
  }

  function startTask(task: Task): void {
    ticked.add(task);
    const ending: Promise<void> = run(task)
      .catch(onError)
      .finally(() => running.delete(ending));
    running.add(ending);
  }

  async function tick(task: Task): Promise<void> {
    // A process whose tasks take long leaves the ticks to others.
    if (running.size >= MAX_RUNNING) lastProgressAt = performance.now();
    // The connection would queue the command.
    else if (
      connection.status === 'ready' &&
      !claiming.has(task) &&
      running.size + claiming.size < MAX_RUNNING
    ) {
      claiming.add(task);
      const isClaimed = await claim(task).finally(() => claiming.delete(task));
      if (isClaimed && !isStopped) startTask(task);
    }
  }

  const stops = Object.entries(intervalsMs).map(([task, intervalMs]) =>
    startInterval(() => void tick(task as Task).catch(reportUnlessStopped), intervalMs),
  );
  /** The end of the connection ends a claim. */
  function reportUnlessStopped(error: Error): void {
    if (!isStopped) onError(error);
  }

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
