import { isPushId } from '@carillon/core/ids';
import { resultWithin } from '@carillon/core/with-timeout';
import { createRedis, hashTag, type Redis } from '@carillon/presence/redis';
import { countEntry, decodeEntry, encodeEntry, type JoinedPush } from './joined-push.ts';
import type { WorkerSettings } from './workers.ts';

/*
 * A job of the queue `send` costs Redis about fifty commands, and a push that backends send is mostly a single one. So a
 * worker keeps such a job open for some seconds: pushes that are accepted meanwhile join it through a list, for four
 * commands. Entries of the list are hints like jobs are: a worker that is killed loses those that it has taken, and the
 * reconciler finds their pushes in MongoDB within two ticks, or when the claim that they came with ends.
 */

/** Returns the keys of open jobs. Those of releases before pushes joined with their contents have other names. */
function openJobKeys(redis: Redis): { open: string; entries: string; called: string } {
  const group = hashTag(redis, 'send') ?? 'send';
  return {
    /** Exists while a job is open: its worker renews it while it takes entries. */
    open: `${group}:joinable`,
    /** Entries of open jobs (joined-push.ts), the oldest first. All open jobs take from it. */
    entries: `${group}:joined`,
    /** Exists for a while after a push got a job although it could have joined: another worker was called. */
    called: `${group}:called`,
  };
}

/** An open job whose worker takes no entries is closed to further pushes after this time. */
const OPEN_MS = 1_500;
const RENEW_INTERVAL_MS = 500;
/** A job is open no longer unless pushes wait, so that the workers take turns. */
const MAX_OPEN_MS = 10_000;
/** While pushes wait, a job is open no longer. Then another one is called, and BullMQ sees no job that never ends. */
const MAX_BUSY_MS = 60_000;
/**
 * A worker that waits longer for a free slot does not keep up. Unless one of its waits is shorter, its job lapses after
 * {@link OPEN_MS}: others get the pushes, also by the reconciler.
 */
const SLOW_MS = 100;
/** Time for which a read of the list blocks in Redis; a stop of the worker waits for it. */
const TAKE_BLOCK_SECONDS = 0.25;
/** Longest time for which a stop waits for the job to be closed in Redis. */
const CLOSE_TIMEOUT_MS = 500;
const IDLE_MS = 1_000;
/** With so many entries the workers of open jobs don't keep up, and a job of the queue may find another worker. */
export const CALL_ENTRIES = 10;
/** Another worker is called this often at most: a job costs as much as a dozen entries, each of up to 50 pushes. */
const CALL_INTERVAL_MS = 250;
/** The list takes no more: each push then gets a job. */
const MAX_ENTRIES = 1_000;

/**
 * KEYS: open, entries, called. ARGV: entry, most entries, entries from which another worker is called, milliseconds between
 * two calls. Returns 0 if the pushes need a job.
 */
const JOIN_SCRIPT = `
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local waiting = redis.call('LLEN', KEYS[2])
if waiting >= tonumber(ARGV[2]) then return 0 end
if waiting >= tonumber(ARGV[3]) and redis.call('SET', KEYS[3], 1, 'PX', ARGV[4], 'NX') then return 0 end
return redis.call('RPUSH', KEYS[2], ARGV[1])`;

/**
 * Adds pushes to an open job.
 *
 * @returns the number of entries that wait now. 0: no job is open, or its worker doesn't keep up and another one is to be
 *   called; the pushes need a job of their own
 * @throws if Redis fails
 */
export async function joinOpenJob(redis: Redis, pushes: readonly JoinedPush[]): Promise<number> {
  const entry = encodeEntry(pushes);
  const { open, entries, called } = openJobKeys(redis);
  const limits = [MAX_ENTRIES, CALL_ENTRIES, CALL_INTERVAL_MS];
  return Number(await redis.eval(JOIN_SCRIPT, 3, open, entries, called, entry, ...limits));
}

/**
 * Counts the pushes that have joined an open job and that no worker has taken yet. Most of the time there are none.
 *
 * @throws if Redis fails
 */
export async function countJoinedPushes(redis: Redis): Promise<number> {
  const entries = await redis.lrange(openJobKeys(redis).entries, 0, -1);
  return entries.reduce((sum, entry) => sum + countEntry(entry), 0);
}

/**
 * Reads the next push for the workers of open jobs. Undefined: none waits, or no job is open.
 *
 * @throws if Redis fails
 */
export async function readOldestJoined(redis: Redis): Promise<string | undefined> {
  const { open, entries } = openJobKeys(redis);
  const results = await redis.pipeline().exists(open).lindex(entries, 0).exec();
  const [isOpen, entry] = (results ?? []).map(([error, result]) => {
    if (error) throw error;
    return result;
  });
  if (isOpen !== 1 || typeof entry !== 'string') return undefined;
  return decodeEntry(entry).find(({ id }) => isPushId(id))?.id;
}

/** Callbacks of a worker for the pushes that join its open job. */
export interface OpenJobHandler {
  /** Resolves when the worker can take more pushes. */
  untilFree(): Promise<void>;
  deliver(pushes: readonly JoinedPush[]): Promise<void>;
  isStopping(): boolean;
}

/** The open job of a process: at most one. */
export type OpenJob = ReturnType<typeof createOpenJob>;

/**
 * Creates the open job of a process, over a connection of its own.
 *
 * @param limits only tests set them
 */
export function createOpenJob(
  { redis: address, onError }: WorkerSettings,
  { idleMs = IDLE_MS, slowMs = SLOW_MS, maxOpenMs = MAX_OPEN_MS, maxBusyMs = MAX_BUSY_MS } = {},
) {
  const redis = createRedis(address, 'blocking', onError);
  /** Settles when the job takes no more pushes; undefined while none is open. */
  let taking: Promise<void> | undefined;
  let isClosed = false;

  async function take(handler: OpenJobHandler, inProgress: Set<Promise<void>>): Promise<void> {
    try {
      const limits = { idleMs, slowMs, maxOpenMs, maxBusyMs };
      await takeWhileOpen(redis, { ...handler, ...limits }, (pushes) => {
        const delivering = handler.deliver(pushes).catch(onError);
        inProgress.add(delivering);
        void delivering.finally(() => inProgress.delete(delivering));
      });
    } catch (error) {
      if (!isClosed) onError(error as Error);
    } finally {
      taking = undefined;
    }
  }

  const isConnected = (): boolean => redis.status === 'ready';

  return {
    isConnected,
    /**
     * Keeps the current job open until it had no push for a second, for ten seconds at most, or for a minute while pushes
     * wait. Resolves when all pushes that have joined are delivered; at once if the process has an open job, or no
     * connection. Never throws: a failure of Redis closes the job.
     */
    async takePushes(handler: OpenJobHandler): Promise<void> {
      if (taking !== undefined || handler.isStopping() || !isConnected()) return;
      const inProgress = new Set<Promise<void>>();
      taking = take(handler, inProgress);
      await taking;
      await Promise.all(inProgress);
    },
    /** Closes the connection, when the job is closed in Redis or after half a second. The handler is stopping by then. */
    async close(): Promise<void> {
      if (taking !== undefined) await resultWithin(taking, CLOSE_TIMEOUT_MS, undefined);
      isClosed = true;
      redis.disconnect();
    },
  };
}

/** Times in milliseconds after which an open job is closed, or is not kept open. */
interface OpenLimits {
  /** Without a push. */
  idleMs: number;
  /** Of a wait for a free slot. */
  slowMs: number;
  /** Since it was opened, if no push waits. */
  maxOpenMs: number;
  /** Since it was opened, if pushes wait. */
  maxBusyMs: number;
}

async function takeWhileOpen(
  redis: Redis,
  handler: OpenJobHandler & OpenLimits,
  take: (pushes: readonly JoinedPush[]) => void,
): Promise<void> {
  const { untilFree, isStopping, idleMs, slowMs, maxOpenMs, maxBusyMs } = handler;
  const keys = openJobKeys(redis);
  const openedAt = performance.now();
  let renewedAt = Number.NEGATIVE_INFINITY;
  let lastPushAt = openedAt;
  /** A single long wait closes nothing: it may be a pause of the process. */
  let keptUpAt = openedAt;
  let isSlow = false;
  while (!isStopping()) {
    const now = performance.now();
    if (now - lastPushAt >= idleMs || now - openedAt >= maxOpenMs) {
      // While pushes wait, a closed job would only add jobs to the queue.
      const waiting = now - keptUpAt >= OPEN_MS ? 0 : await redis.llen(keys.entries);
      if (waiting === 0) break;
      // The next pushes call a worker, which goes on with the list.
      if (now - openedAt >= maxBusyMs && waiting >= CALL_ENTRIES) return;
    }
    // Without the key, pushes get jobs, and the reconciler adds those that wait.
    if (!isSlow && now - renewedAt >= RENEW_INTERVAL_MS) {
      await redis.set(keys.open, 1, 'PX', OPEN_MS);
      renewedAt = now;
    }
    const entry = (await redis.blpop(keys.entries, TAKE_BLOCK_SECONDS))?.[1];
    if (entry !== undefined) {
      lastPushAt = performance.now();
      take(decodeEntry(entry));
      await untilFree();
    }
    isSlow = entry !== undefined && performance.now() - lastPushAt >= slowMs;
    if (!isSlow) keptUpAt = performance.now();
  }
  await redis.del(keys.open);
  await takeRest(redis, handler, take);
}

/** Takes the pushes that joined at the last moment: they must not wait for the reconciler. Others join another job. */
async function takeRest(
  redis: Redis,
  { untilFree, isStopping }: OpenJobHandler,
  take: (pushes: readonly JoinedPush[]) => void,
): Promise<void> {
  const { entries } = openJobKeys(redis);
  for (let taken = 0; taken < MAX_ENTRIES && !isStopping(); taken += 1) {
    const entry = await redis.lpop(entries);
    if (entry === null) break;
    take(decodeEntry(entry));
    await untilFree();
  }
}
