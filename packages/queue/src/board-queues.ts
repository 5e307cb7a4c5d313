import { connectRedis, type OnRedisError, type RedisAddress } from '@carillon/presence/redis';
import { Queue } from 'bullmq';
import { NO_VERSION_CHECK, QUEUE_NAMES } from './jobs.ts';
import { queuePrefix } from './queue-keys.ts';
import { closeWithin } from './workers.ts';

export type { Queue } from 'bullmq';

/** All queues over one connection, for inspecting their jobs. */
export type BoardQueues = Awaited<ReturnType<typeof openBoardQueues>>;

/**
 * Opens all queues. They write nothing by themselves, and poll nothing. Resolves when Redis is connected, or after 2 s
 * without.
 */
export async function openBoardQueues(redis: RedisAddress, onError: OnRedisError) {
  const connection = await connectRedis(redis);
  const queues = QUEUE_NAMES.map((name) => {
    const queue = new Queue(name, {
      connection,
      prefix: queuePrefix(connection),
      skipMetasUpdate: true,
      ...NO_VERSION_CHECK,
    });
    queue.on('error', onError);
    return queue;
  });
  return {
    queues,
    /** Returns true while a command would reach Redis. */
    isReady: (): boolean => connection.status === 'ready',
    close: (): Promise<void> =>
      closeWithin(Promise.all(queues.map((queue) => queue.close())), connection, onError),
  };
}
