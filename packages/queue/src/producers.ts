import { createGroup } from '@carillon/core/group';
import type { Channel } from '@carillon/core/platforms';
import { type JobsOptions, Queue } from 'bullmq';
import { connectProducer, type OnRedisError } from './connection.ts';
import {
  deliverJobId,
  deliverQueue,
  dueJobId,
  endJobId,
  type PresenceJob,
  type QueueName,
  sendJobId,
} from './jobs.ts';

/** Adds jobs. Nothing here throws or waits long: a job that Redis didn't take is found again in MongoDB. */
export interface Producers {
  /** A step of the fan-out of a push that has batches. */
  fanOut(push: string, step?: { seq: number; delayMs?: number }): Promise<void>;
  /** Delivers a push that holds its only batch. Those of one moment share jobs. */
  send(push: string): Promise<void>;
  deliver(work: string, channel: Channel): Promise<void>;
  /** Has it looked, in 2 s, whether these pushes are delivered to all. */
  finish(pushes: readonly string[]): Promise<void>;
  /** Has pushes ended that have expired or been deleted. */
  end(pushes: readonly string[]): Promise<void>;
  /** Has what is due looked for after a time, right behind a unix second. */
  lookForDue(second: number, afterMs: number): Promise<void>;
  presence(events: PresenceJob['events']): Promise<void>;
  close(): Promise<void>;
}

/** Late enough for a device's receipts to have gone into one look. */
const FINISH_AFTER_MS = 2_000;
const ADD_DEADLINE_MS = 600;
/** So few that several workers share a crowd. */
const LONE_PER_JOB = 50;
const LOOKS_PER_JOB = 200;
/** What was asked for so recently needs no second look: the first is still to come, whatever the machines' clocks say. */
const FINISH_ASKED_MS = 500;

type Job = { name: string; data: object; opts: JobsOptions };

/** Kept for nobody: an id that is kept would silently swallow the next job of that id. */
const EPHEMERAL = { removeOnComplete: true, removeOnFail: true, attempts: 1 } as const;

/** Makes the producers of a process; jobs added at the same time share round trips. */
export function createProducers(redisUrl: string, onError: OnRedisError): Producers {
  const connection = connectProducer(redisUrl, onError);
  const queues = new Map<QueueName, { queue: Queue; add: (job: Job) => Promise<void> }>();

  function open(name: QueueName) {
    const queue = new Queue(name, { connection, streams: { events: { maxLen: 1_000 } } });
    queue.on('error', onError);
    const add = createGroup<Job, void>(
      async (jobs) => {
        // Told once for all that were added together, not once for each.
        await withDeadline(queue.addBulk(jobs)).catch(onError);
        return jobs.map(() => undefined);
      },
      { maxItems: 200 },
    );
    const opened = { queue, add };
    queues.set(name, opened);
    return opened;
  }

  const add = (name: QueueName, job: Job): Promise<void> =>
    (queues.get(name) ?? open(name)).add(job);

  const sendGrouped = createGroup<string, void>(
    async (lone) => {
      const opts = { ...EPHEMERAL, jobId: sendJobId(lone[0] ?? '', 0) };
      await add('send', { name: 'send', data: { lone }, opts });
      return lone.map(() => undefined);
    },
    { maxItems: LONE_PER_JOB },
  );

  const finishGrouped = createGroup<string, void>(
    async (pushes) => {
      const opts = { ...EPHEMERAL, delay: FINISH_AFTER_MS };
      await add('finish', { name: 'finish', data: { pushes }, opts });
      return pushes.map(() => undefined);
    },
    { maxItems: LOOKS_PER_JOB },
  );
  const isNew = createRecently(FINISH_ASKED_MS);

  return {
    fanOut: (push, { seq, delayMs = 0 } = { seq: 0 }) =>
      add('send', {
        name: 'send',
        data: { fanOut: push },
        opts: { ...EPHEMERAL, jobId: sendJobId(push, seq), delay: delayMs },
      }),
    send: sendGrouped,
    deliver: (work, channel) =>
      add(deliverQueue(channel), {
        name: 'deliver',
        data: { work },
        opts: { ...EPHEMERAL, jobId: deliverJobId(work) },
      }),
    async finish(pushes) {
      await Promise.all(pushes.filter(isNew).map((push) => finishGrouped(push)));
    },
    async end(pushes) {
      await Promise.all(
        pushes.map((push) => {
          const opts = { ...EPHEMERAL, jobId: endJobId(push), delay: FINISH_AFTER_MS };
          return add('finish', { name: 'finish', data: { pushes: [push] }, opts });
        }),
      );
    },
    lookForDue: (second, afterMs) =>
      add('maintenance', {
        name: 'reconcile',
        data: { task: 'reconcile' },
        opts: { ...EPHEMERAL, jobId: dueJobId(second), delay: afterMs },
      }),
    presence: (events) =>
      add('presence', { name: 'presence', data: { events }, opts: { ...EPHEMERAL } }),
    async close() {
      await Promise.allSettled([...queues.values()].map(({ queue }) => queue.close()));
      connection.disconnect();
    },
  };
}

/** Tells of each name whether it is new: not asked for within a time. */
function createRecently(forMs: number): (name: string) => boolean {
  let recent = new Set<string>();
  let before = new Set<string>();
  let turnsAt = 0;
  return (name) => {
    const now = performance.now();
    if (now >= turnsAt) {
      before = now < turnsAt + forMs / 2 ? recent : new Set();
      recent = new Set();
      turnsAt = now + forMs / 2;
    }
    if (recent.has(name) || before.has(name)) return false;
    recent.add(name);
    return true;
  };
}

/** The command's own timeout doesn't cover a client that waits to be ready. */
async function withDeadline(added: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('Redis took no job in time')), ADD_DEADLINE_MS);
  });
  added.catch(() => undefined);
  await Promise.race([added, late]).finally(() => clearTimeout(timer));
}
