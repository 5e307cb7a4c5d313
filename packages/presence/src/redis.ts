import { Redis } from 'ioredis';

export type { Redis } from 'ioredis';

const FIRST_WAIT_MS = 2_000;
const RETRY_CAP_MS = 1_000;

/** The longest that a blocking read waits in Redis. */
export const BLOCK_MS = 1_000;

/** Between two tries 50 ms, doubling to a second; with jitter, since all processes lose Redis together. */
function retryDelay(times: number): number {
  const delay = Math.min(50 * 2 ** times, RETRY_CAP_MS);
  return delay / 2 + (Math.random() * delay) / 2;
}

/**
 * A connection whose commands fail within a second when Redis is away or frozen, and at once while it is
 * known to be away; it reconnects by itself. Resolves when connected, or after 2 s without: a service
 * starts without Redis too.
 *
 * @param use `blocking` for a connection that only waits in XREAD
 */
export async function connectRedis(
  url: string,
  use: 'commands' | 'blocking' = 'commands',
): Promise<Redis> {
  const blocking = use === 'blocking';
  const redis = new Redis(url, {
    commandTimeout: blocking ? BLOCK_MS + 2_000 : 1_000,
    // A link that died without a word is given up, or the kernel would keep it for a quarter of an hour.
    socketTimeout: blocking ? BLOCK_MS + 4_000 : 5_000,
    connectTimeout: 2_000,
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 1,
    retryStrategy: retryDelay,
  });
  // Each command reports its own failure; without a listener the process would end.
  redis.on('error', () => undefined);
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, FIRST_WAIT_MS);
    redis.once('ready', () => {
      clearTimeout(timer);
      resolve();
    });
  });
  return redis;
}
