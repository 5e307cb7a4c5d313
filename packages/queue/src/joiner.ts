import { setImmediate as yieldToEventLoop } from 'node:timers/promises';
import { resultWithin, withTimeout } from '@carillon/core/with-timeout';
import {
  createRedis,
  type OnRedisError,
  type Redis,
  type RedisAddress,
} from '@carillon/presence/redis';
import type { JoinedPush } from './joined-push.ts';
import { joinOpenJob } from './open-job.ts';
import { closeWithin } from './workers.ts';

/**
 * Creates the joiner of a process, over a connection of its own, which repeats no command whose response was lost: unlike a
 * job, a push that joins twice may be delivered twice, because its entry holds its claim.
 *
 * @param timeoutMs longest time for which a push waits for Redis
 */
export function createJoiner(address: RedisAddress, onError: OnRedisError, timeoutMs: number) {
  let opened: { redis: Redis; whenOpen: Promise<unknown> } | undefined;
  let joining: Promise<number> | undefined;

  function open(): { redis: Redis; whenOpen: Promise<unknown> } {
    if (opened !== undefined) return opened;
    const redis = createRedis(address, 'command', onError);
    const ready = new Promise<void>((resolve) => redis.once('ready', resolve));
    opened = { redis, whenOpen: resultWithin(ready, timeoutMs, undefined) };
    return opened;
  }

  async function addToOpenJob(pushes: readonly JoinedPush[]): Promise<number> {
    const { redis, whenOpen } = open();
    await whenOpen;
    if (redis.status !== 'ready') return 0;
    return withTimeout(joinOpenJob(redis, pushes), timeoutMs, 'Redis').catch((error: Error) => {
      onError(error);
      return Number.NaN;
    });
  }

  async function untilJoined(): Promise<void> {
    // The next call follows in the same turn of the event loop.
    do {
      await joining;
      await yieldToEventLoop();
    } while (joining !== undefined);
  }

  return {
    /** Opens the connection: most processes send no push, and have none. */
    open: (): void => void open(),
    /**
     * Adds pushes to an open job, one call at a time, and returns how many entries wait; 0: they need a job. `NaN`: Redis
     * fails.
     */
    join(pushes: readonly JoinedPush[]): Promise<number> {
      joining = addToOpenJob(pushes).finally(() => {
        joining = undefined;
      });
      return joining;
    },
    /** Closes the connection, after the pushes that were accepted before have joined, unless Redis takes too long. */
    async close(): Promise<void> {
      if (opened !== undefined) await closeWithin(untilJoined(), opened.redis, onError);
    },
  };
}
