import { MINUTE_MS } from '@carillon/presence/figures';
import type { FiguresSnapshot } from '@carillon/presence/figures-reader';
import type { Redis } from '@carillon/presence/redis';
import { readQueueStates } from '@carillon/queue/queue-states';
import { z } from 'zod';
import { ConsoleError, defineRoute } from '../http/route.ts';
import type { LiveFigures } from '../live/live-figures.ts';

/** Age up to which viewers share a read. */
const MAX_AGE_MS = 1_000;
/** Minimum time of a rate: processes add their counts every 5 s. */
const MIN_MEASURED_MS = 15_000;

/** Makes the route of the queues' numbers. Nothing is read without a request. @param redis the Redis of the queues */
export function queueRoutes(redis: Redis, figures: LiveFigures) {
  let latest: ReturnType<typeof read> | undefined;
  let latestAt = Number.NEGATIVE_INFINITY;

  /** Reads the jobs of the queues with their rates of the last hour, and the pending batches of the channels. */
  async function read() {
    const [states, snapshot] = await Promise.all([readQueueStates(redis), figures.read()]);
    const { readAt, minutes, channels } = snapshot;
    const queues = states.map((state) => {
      const perSecond = measureRate(snapshot, state.name);
      return {
        ...state,
        perSecond,
        /** Null while no job was taken. */
        drainMs: perSecond > 0 ? Math.round((state.waiting / perSecond) * 1_000) : null,
        /** Jobs taken in each of the last minutes. */
        taken: minutes.map(({ taken }) => taken[state.name] ?? 0),
      };
    });
    const times = minutes.map(({ at }) => at);
    return { readAt: Math.round(readAt), times, queues, channels };
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
      isPublic: true,
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

/**
 * Measures the jobs a second that the workers of a queue have taken in the current minute, or since the one before while
 * that has hardly begun. Of the two it counts from the first with jobs.
 */
function measureRate({ readAt, minutes }: FiguresSnapshot, queue: string): number {
  const takenIn = ({ taken }: FiguresSnapshot['minutes'][number]) => taken[queue] ?? 0;
  const recent = minutes.filter(({ at }) => readAt - at < MINUTE_MS + MIN_MEASURED_MS);
  const first = recent.find((minute) => takenIn(minute) > 0);
  if (first === undefined) return 0;
  const taken = recent.reduce((sum, minute) => sum + takenIn(minute), 0);
  return taken / Math.max(1, (readAt - first.at) / 1_000);
}
