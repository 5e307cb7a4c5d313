import { randomUUID } from 'node:crypto';
import { withTimeout } from '@carillon/core/with-timeout';
import { executePipeline } from '@carillon/presence/execute-pipeline';
import type { Redis } from '@carillon/presence/redis';
import { PRIORITY_LIMIT } from 'bullmq';
import { LRUCache } from 'lru-cache';
import type { QueueName } from './jobs.ts';
import { queueKey, turnsKey } from './queue-keys.ts';

/** Recipients of an app that are one turn: as many come before the next app's. */
const RECIPIENTS_PER_TURN = 50;
/** Recipients of an app between two looks at the queue whose jobs come first: nobody feels so few. */
const FREE_RECIPIENTS = 100;
/** Waiting jobs without a priority that are no backlog. */
const FREE_JOBS = 16;
/** Interval between two looks at a queue to which jobs are added. */
const LOOK_EVERY_MS = 100;
/** Maximum age of the last look with which a job does not wait for the next one. */
const MAX_AGE_MS = 500;
/** Maximum wait for a look; without its result a job is added without a turn. */
const LOOK_TIMEOUT_MS = 600;
/** Maximum apps whose last turn a process knows; it reads that of others from Redis. */
const MAX_APPS = 10_000;
/** Lifetime of the counts in Redis after the last job was added to a backlog. */
const COUNTS_TTL_SECONDS = 3_600;
/** Factor of the priority in BullMQ's score of a prioritized job; the low 32 bits keep the order. */
const SCORE_FACTOR = 0x100000000;

/** Each turn has two priorities: an app's first job comes before the rest of the others' turn. */
const toPriority = (turn: number, isFirst: boolean): number => 2 * turn - Number(isFirst);
const toTurn = (priority: number): number => Math.ceil(priority / 2);

/** The jobs of an app in one queue. */
interface AppJobs {
  /** Number of the recipient after the app's last one, in the count of the queue's turns; a promise until Redis has told it. */
  end: number | Promise<void>;
  /** Recipients that were counted since the last look. */
  added: number;
  /** Recipients of jobs that were added again since the last look. */
  again: number;
  /** Recipients since the last look whose jobs have no turn. */
  free: number;
}

/** A job that waits for the turn of its app. */
export interface Turn {
  app: string;
  /** Recipients of the job, or another measure of its work. */
  recipients: number;
  /** The job was added before, and probably still waits: it comes after the others of its app, and does not count as more work. */
  isAgain?: boolean;
}

/**
 * Creates the turns of the apps in a queue: each app with waiting jobs has the same share of the workers, however many jobs of
 * others wait. They are BullMQ's priorities. The first job of an app comes in the turn of the next job in the queue, before its rest, and each
 * further one a larger number by its recipients (start-time fair queueing). Without a backlog no job has a priority.
 *
 * Each process counts the apps' recipients and adds its counts to those of the others in Redis. The counts mean something only
 * in relation to the jobs that wait: if they are lost, an app begins again at the head of the queue, and when no job with
 * a priority waits any more, all are forgotten, by the other processes too.
 *
 * @param whenReady resolves when the connection is ready
 * @returns a function that returns the priority of a job to be added; 0: it comes before all that have one
 */
export function createAppTurns(
  redis: Redis,
  queue: QueueName,
  whenReady: () => Promise<unknown>,
): (turn: Turn) => Promise<number> {
  const counts = createSharedCounts(redis, queue);
  const apps = new LRUCache<string, AppJobs>({ max: MAX_APPS });
  let hasBacklog = false;
  /** Turn of the next job of the queue. */
  let head = 0;
  /** The backlog that the counts belong to; undefined without one that is in Redis. */
  let backlog: string | undefined;

  async function look(): Promise<void> {
    await withTimeout(whenReady(), LOOK_TIMEOUT_MS, 'Redis');
    const found = await counts.look();
    // Only now: a job that is added meanwhile must not come before an earlier one of its app.
    const added = new Map<string, number>();
    for (const [app, one] of apps.entries()) {
      // Of jobs that were added again, only the place behind the others is wanted.
      if (one.added > 0 || one.again > 0) added.set(app, one.added);
      Object.assign(one, { added: 0, again: 0, free: 0 });
    }
    hasBacklog = found.next !== undefined || found.waiting > FREE_JOBS;
    head = found.next ?? 0;
    const isOver = found.next === undefined;
    if (isOver || (backlog !== undefined && found.backlog !== backlog)) {
      // What was counted is of an earlier backlog, or at most of the last moment. Where no backlog was known, it is of the
      // jobs that wait now, also if another process has named their backlog meanwhile.
      apps.clear();
      added.clear();
    }
    if (isOver && found.backlog !== undefined) await counts.forget();
    backlog = isOver ? undefined : found.backlog;
    if (isOver || added.size === 0) return;
    const shared = await counts.add(added);
    backlog = shared.backlog;
    await follow(shared.ends);
  }

  /** Takes over the counts of all processes; an app whose jobs were all taken goes on at the head. */
  async function follow(ends: ReadonlyMap<string, number>): Promise<void> {
    const behind: Record<string, number> = {};
    for (const [app, one] of apps.entries()) {
      if (typeof one.end !== 'number') continue;
      const end = ends.get(app) ?? 0;
      one.end = Math.max(one.end, end, head * RECIPIENTS_PER_TURN);
      if (end < one.end && ends.has(app)) behind[app] = one.end;
    }
    await counts.set(behind);
  }

  function jobsOf(app: string): AppJobs {
    const known = apps.get(app);
    if (known !== undefined) return known;
    const one: AppJobs = { end: 0, added: 0, again: 0, free: 0 };
    if (backlog !== undefined)
      one.end = counts.read(app).then((end) => {
        one.end = end;
      });
    apps.set(app, one);
    return one;
  }

  const lookIfDue = limitLooks(look);
  return async ({ app, recipients, isAgain = false }) => {
    await lookIfDue();
    const one = jobsOf(app);
    // Once a job has a turn, those after it have one too.
    if (!hasBacklog && one.free < FREE_RECIPIENTS) {
      one.free += recipients;
      return 0;
    }
    while (typeof one.end !== 'number') await one.end;
    const headStart = head * RECIPIENTS_PER_TURN;
    const isFirst = one.end <= headStart && one.again === 0;
    const start = Math.max(one.end, headStart);
    const turn = Math.floor((start + one.again) / RECIPIENTS_PER_TURN) + 1;
    if (isAgain) one.again += recipients;
    else {
      one.end = start + recipients;
      one.added += recipients;
    }
    return Math.min(toPriority(turn, isFirst), PRIORITY_LIMIT);
  };
}

/** Looks when the last time is long enough ago. Jobs that are added after a pause wait for the result. */
function limitLooks(look: () => Promise<void>): () => Promise<void> {
  let lookedAt = Number.NEGATIVE_INFINITY;
  let knownAt = Number.NEGATIVE_INFINITY;
  let looking: Promise<void> | undefined;
  return async () => {
    if (looking === undefined && performance.now() - lookedAt >= LOOK_EVERY_MS) {
      lookedAt = performance.now();
      looking = look()
        // What was known before holds until the next look.
        .catch(() => undefined)
        .finally(() => {
          knownAt = performance.now();
          looking = undefined;
        });
    }
    if (performance.now() - knownAt > MAX_AGE_MS) await looking;
  };
}

/** What a look at a queue finds. */
interface QueueLook {
  /** Waiting jobs without a priority. */
  waiting: number;
  /** Turn of the next job that has one. */
  next: number | undefined;
  /** The backlog that the counts in Redis belong to; undefined without counts. */
  backlog: string | undefined;
}

/** Field of the backlog's id among the counts; no app has this id. */
const BACKLOG = 'backlog';

/** Keeps the counts of all processes in Redis. Functions throw if Redis fails. */
function createSharedCounts(redis: Redis, queue: QueueName) {
  const key = turnsKey(redis, queue);
  return {
    async look(): Promise<QueueLook> {
      const pipeline = redis.pipeline();
      pipeline.llen(queueKey(redis, queue, 'wait'));
      pipeline.zrange(queueKey(redis, queue, 'prioritized'), '0', '0', 'WITHSCORES');
      pipeline.hget(key, BACKLOG);
      const [waiting, first, backlog] = await withTimeout(
        executePipeline(pipeline),
        LOOK_TIMEOUT_MS,
        'Redis',
      );
      const score = Array.isArray(first) ? first[1] : undefined;
      return {
        waiting: Number(waiting),
        next:
          score === undefined ? undefined : toTurn(Math.floor(Number(score) / SCORE_FACTOR)) - 1,
        backlog: typeof backlog === 'string' ? backlog : undefined,
      };
    },
    /** Adds to the counts; the first process names the backlog. Returns the counts of all processes. */
    async add(
      added: ReadonlyMap<string, number>,
    ): Promise<{ backlog: string; ends: ReadonlyMap<string, number> }> {
      const pipeline = redis.pipeline();
      pipeline.hsetnx(key, BACKLOG, randomUUID());
      pipeline.hget(key, BACKLOG);
      pipeline.expire(key, COUNTS_TTL_SECONDS);
      for (const [app, recipients] of added) pipeline.hincrby(key, app, recipients);
      const [, backlog, , ...ends] = await withTimeout(
        executePipeline(pipeline),
        LOOK_TIMEOUT_MS,
        'Redis',
      );
      const entries = [...added.keys()].map((app, n) => [app, Number(ends[n])] as const);
      return { backlog: String(backlog), ends: new Map(entries) };
    },
    /** Returns the count of an app; 0 if it is unknown, or Redis fails. */
    async read(app: string): Promise<number> {
      const reading = withTimeout(redis.hget(key, app), LOOK_TIMEOUT_MS, 'Redis');
      return Number((await reading.catch(() => null)) ?? 0);
    },
    async set(counts: Readonly<Record<string, number>>): Promise<void> {
      if (Object.keys(counts).length > 0) await redis.hset(key, counts);
    },
    forget: (): Promise<unknown> => redis.del(key),
  };
}
