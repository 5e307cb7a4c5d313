import type { Channel } from '@carillon/core/channels';
import { describeRedisUrl } from '@carillon/core/redis-url';
import { createAppFiguresReader } from '@carillon/presence/app-figures';
import { createRedis, type Redis, type RedisAddress } from '@carillon/presence/redis';
import { type QueueState, readQueueStates } from '@carillon/queue/queue-states';
import type { AppBacklog } from '@carillon/reports/app-backlog';
import { type ChannelBacklog, measureChannels } from '@carillon/reports/backlog';
import type { Reports } from '@carillon/reports/reports';
import type { Store } from '@carillon/store/store';
import { AdminError, describeError } from './admin-error.ts';

/** Number of apps that are listed. */
const LISTED_APPS = 10;

/** Jobs of the queues, and pending batches by channel and by app. */
export interface QueuesView {
  queues: QueueState[];
  channels: (ChannelBacklog & { channel: Channel })[];
  /** The ten apps with the most pending batches. */
  apps: PendingApp[];
}

/** An app with its pending batches. */
export interface PendingApp extends AppBacklog {
  name: string;
  paused: boolean;
}

type BacklogStore = Pick<Store, 'apps' | 'suspensions'> & Pick<Reports, 'appBacklog'>;

/**
 * Reads the jobs of the queues.
 *
 * @throws AdminError REDIS_UNREACHABLE
 */
export const readJobs = (address: RedisAddress): Promise<QueueState[]> =>
  withJobs(address, async (_, queues) => queues);

/** Opens Redis, reads the jobs, and calls `read`. @throws AdminError REDIS_UNREACHABLE; any error of `read` */
async function withJobs<T>(
  address: RedisAddress,
  read: (redis: Redis, queues: QueueState[]) => Promise<T>,
): Promise<T> {
  const redis = createRedis(address, 'probe', () => undefined);
  try {
    const queues = await redis
      .connect()
      .then(() => readQueueStates(redis))
      .catch((error: unknown) => {
        const server = describeRedisUrl(address.url);
        const text = `Redis at ${server} can't be reached: ${describeError(error)}.`;
        throw new AdminError('REDIS_UNREACHABLE', text);
      });
    return await read(redis, queues);
  } finally {
    redis.disconnect();
  }
}

/**
 * Reads what waits: the jobs in Redis, the batches in MongoDB.
 *
 * @throws AdminError REDIS_UNREACHABLE; any error of MongoDB
 */
export function readQueues(
  store: BacklogStore & Pick<Reports, 'backlog'>,
  address: RedisAddress,
): Promise<QueuesView> {
  return withJobs(address, async (redis, queues) => {
    await store.suspensions.refresh();
    const figures = createAppFiguresReader(redis);
    // Without Redis apps are missing that another one hides.
    const listActive = () => figures.listActive().catch(() => []);
    return {
      queues,
      channels: await measureChannels(store.backlog),
      apps: await listPendingApps(store, listActive, LISTED_APPS),
    };
  });
}

/** Lists the apps with the most pending batches. Refresh the suspensions before. */
export async function listPendingApps(
  { apps, appBacklog, suspensions }: BacklogStore,
  listActive: () => Promise<readonly string[]>,
  limit: number,
): Promise<PendingApp[]> {
  const found = (await appBacklog.measure(listActive)).slice(0, limit);
  const owners = await apps.findOwners(found.map(({ app }) => app));
  const names = new Map(owners.map(({ _id, name }) => [_id, name]));
  return found.map((backlog) => ({
    ...backlog,
    name: names.get(backlog.app) ?? backlog.app,
    paused: suspensions.isPaused(backlog.app),
  }));
}
