import { openBoardQueues, type Queue } from '../../../packages/queue/src/board-queues.ts';
import type { QueueName } from '../../../packages/queue/src/jobs.ts';
import { until } from '../until.ts';

const DONE_MS = 60_000;
const UNFINISHED = ['waiting', 'prioritized', 'delayed', 'active', 'failed'] as const;
/** Of each state of a queue. */
const MAX_LISTED = 1_000;

/** The queues of a stack, to which a test adds jobs that no process of Carillon would add. */
export interface JobQueues {
  /** Keeps all jobs of a queue waiting until `resume` is called. */
  pause(name: QueueName): Promise<void>;
  resume(name: QueueName): Promise<void>;
  /** Adds a job so often, each with an id of its own unless `jobId` gives one. Returns the ids. */
  add(
    name: QueueName,
    data: unknown,
    options?: { times?: number; jobId?: string },
  ): Promise<string[]>;
  /** Counts the jobs of all queues that are left, delayed and failed ones included. */
  countLeft(): Promise<number>;
  /** Waits until no job of a queue waits or runs. */
  untilDone(name: QueueName): Promise<void>;
  close(): Promise<void>;
}

/** Opens the queues over a connection of the test's own. */
export async function openJobQueues(redis: { url: string }): Promise<JobQueues> {
  const board = await openBoardQueues(redis, () => undefined);
  const find = (name: QueueName): Queue => {
    const queue = board.queues.find((one) => one.name === name);
    if (queue === undefined) throw new Error(`there is no queue ${name}`);
    return queue;
  };
  return {
    pause: (name) => find(name).pause(),
    resume: (name) => find(name).resume(),
    async add(name, data, { times = 1, jobId } = {}) {
      const opts = { removeOnComplete: true, removeOnFail: true, ...(jobId && { jobId }) };
      const jobs = await find(name).addBulk(
        Array.from({ length: times }, () => ({ name, data, opts })),
      );
      return jobs.map(({ id = '' }) => id);
    },
    async countLeft() {
      const lists = await Promise.all(
        board.queues.map((queue) => queue.getRanges([...UNFINISHED], 0, MAX_LISTED)),
      );
      return lists.flat().length;
    },
    async untilDone(name) {
      const isDone = async () => {
        const counts = await find(name).getJobCounts('waiting', 'active');
        return Object.values(counts).every((count) => count === 0);
      };
      await until(isDone, { timeoutMs: DONE_MS, what: `no job in the queue ${name}` });
    },
    close: board.close,
  };
}
