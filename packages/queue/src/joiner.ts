import { resultWithin, withTimeout } from '@carillon/core/with-timeout';
import {
  createRedis,
  type OnRedisError,
  type Redis,
  type RedisAddress,
} from '@carillon/presence/redis';
import type { JoinedPush } from './joined-push.ts';
import { joinOpenJob } from './open-job.ts';

/**
 * Creates the joiner of a process, over a connection of its own, which repeats no command whose response was lost: unlike a
 * job, a push that joins twice may be delivered twice, because its entry holds its claim.
 *
 * @param timeoutMs longest time for which a push waits for Redis
 */
export function createJoiner(address: RedisAddress, onError: OnRedisError, timeoutMs: number) {
  let opened: { redis: Redis; whenOpen: Promise<unknown> } | undefined;

  function open(): { redis: Redis; whenOpen: Promise<unknown> } {
    if (opened !== undefined) return opened;
    const redis = createRedis(address, 'command', onError);
    const ready = new Promise<void>((resolve) => redis.once('ready', resolve));
    opened = { redis, whenOpen: resultWithin(ready, timeoutMs, undefined) };
    return opened;
  }

  return {
    /** Opens the connection: most processes send no push, and have none. */
    open: (): void => void open(),
    /** Adds pushes to an open job, and returns how many entries wait; 0: they need a job. `NaN`: Redis fails. */
    async join(pushes: readonly JoinedPush[]): Promise<number> {
      const { redis, whenOpen } = open();
      await whenOpen;
      if (redis.status !== 'ready') return 0;
      return withTimeout(joinOpenJob(redis, pushes), timeoutMs, 'Redis').catch((error: Error) => {
        onError(error);
        return Number.NaN;
      });
    },
    close: (): void => opened?.redis.disconnect(),
  };
}
