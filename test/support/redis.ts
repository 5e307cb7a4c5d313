import { parseRedisUrl } from '../../packages/core/src/redis-url.ts';
import type { Redis } from '../../packages/presence/src/redis.ts';
import { createClient } from '../../packages/presence/src/redis-clients.ts';
import type { Dev } from './stack/dev-file.ts';

/**
 * A connection of the test's own to the stack's Redis, to read and to break it ({@link emptyRedis}).
 * The caller ends it with `disconnect()`.
 */
export async function openRedis(dev: Pick<Dev, 'redis'>): Promise<Redis> {
  const settings = {
    lazyConnect: true,
    maxRetriesPerRequest: 1,
    retryStrategy: (attempt: number) => Math.min(50 * attempt, 2_000),
  };
  const redis = createClient(parseRedisUrl(dev.redis), settings, undefined);
  // Without a listener a server that was killed on purpose would be noise in the test's output.
  redis.on('error', () => undefined);
  await redis.connect();
  return redis;
}

/** Removes all that Redis holds, from every primary of a cluster. */
export async function emptyRedis(redis: Redis): Promise<void> {
  await Promise.all(listPrimaries(redis).map((primary) => primary.flushall()));
}

/** Lists the keys of a pattern, from every primary of a cluster. */
export async function listKeys(redis: Redis, pattern: string): Promise<string[]> {
  const keys = await Promise.all(listPrimaries(redis).map((primary) => primary.keys(pattern)));
  return keys.flat();
}

function listPrimaries(redis: Redis) {
  return 'nodes' in redis ? redis.nodes('master') : [redis];
}
