import { Redis } from 'ioredis';
import type { Dev } from './stack/dev-file.ts';

/**
 * A connection of the test's own to the stack's Redis, to look and to break (`flushall`).
 * Whoever opens it ends it with `disconnect()`.
 */
export async function openRedis(dev: Pick<Dev, 'redis'>): Promise<Redis> {
  const redis = new Redis(dev.redis, { lazyConnect: true, maxRetriesPerRequest: 1 });
  // Without a listener a server that was killed on purpose would be noise in the test's output.
  redis.on('error', () => undefined);
  await redis.connect();
  return redis;
}
