import { createFiguresReader } from '@carillon/presence/figures-reader';
import type { Redis } from '@carillon/presence/redis';
import { readQueueStates } from '@carillon/queue/queue-states';
import { z } from 'zod';
import { ConsoleError, defineRoute } from '../http/route.ts';

/** Age up to which viewers share a read. */
const MAX_AGE_MS = 1_000;

/** Makes the route of the queues' numbers. Nothing is read without a request. @param redis the Redis of the queues */
export function queueRoutes(redis: Redis) {
  const figures = createFiguresReader(redis);
  let latest: ReturnType<typeof read> | undefined;
  let latestAt = Number.NEGATIVE_INFINITY;

  /** Reads the jobs of the queues, and the pending batches of the channels, which are absent until a scheduler has counted. */
  async function read() {
    const [queues, { readAt, channels }] = await Promise.all([
      readQueueStates(redis),
      figures.read(),
    ]);
    return { readAt: Math.round(readAt), queues, channels };
  }

  function readShared(): ReturnType<typeof read> {
    const now = performance.now();
    if (latest === undefined || now - latestAt > MAX_AGE_MS) {
      latest = read();
      latestAt = now;
    }
    return latest;
  }

  return [
    defineRoute({
      method: 'get',
      path: '/queues',
      role: 'viewer',
      account: 'installation',
      input: z.object({}),
      handle: () =>
        readShared().catch(() => {
          latest = undefined;
          throw new ConsoleError('UNAVAILABLE', 'Redis does not respond: there are no figures.', 5);
        }),
    }),
  ];
}
