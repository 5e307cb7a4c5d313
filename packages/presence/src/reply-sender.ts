import { TTL_SECONDS } from './keys.ts';
import type { Redis } from './redis.ts';
import { createResultBatch, type ReplyTo, type Report } from './replies.ts';

/** Minimum interval between two writes of replies. */
const REPLY_INTERVAL_MS = 10;
/** Age after which replies are trimmed from a stream. */
const REPLY_RETENTION_MS = 60_000;
/** Maximum delay until a reply stream that was written gets its expiry. */
const EXPIRE_DELAY_MS = 2_000;

/**
 * Creates the sender of results: it collects them and sends them at most every 10 ms, one entry per worker. A single result is
 * sent at once.
 *
 * @param now returns milliseconds, Redis's time
 */
export function createReplySender(redis: Redis, now: () => number) {
  const resultBatch = createResultBatch();
  const expiry = createDelayedExpiry(redis);
  let timer: NodeJS.Timeout | undefined;
  let flushedAt = 0;

  async function flush(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    flushedAt = performance.now();
    const pipeline = redis.pipeline();
    const minTimestamp = Math.max(0, Math.floor(now() - REPLY_RETENTION_MS)) || 0;
    for (const [stream, fields] of resultBatch.takeAll()) {
      pipeline.xadd(stream, 'MINID', '~', minTimestamp, '*', ...fields);
      expiry.add(stream);
    }
    // A lost result counts as unanswered: the worker dispatches again, and the gateway remembers the delivery.
    if (pipeline.length > 0) await pipeline.exec().catch(() => undefined);
  }

  return {
    flush,
    /** Adds the result of the recipient at a position. */
    add(to: ReplyTo, position: number, result: Report): void {
      resultBatch.add(to, position, result);
      if (timer !== undefined) return;
      const delayMs = flushedAt + REPLY_INTERVAL_MS - performance.now();
      timer = setTimeout(() => void flush(), Math.max(0, delayMs));
    },
  };
}

/**
 * Sets the expiry of reply streams soon after they were written, all of them in one round trip. This covers the stream
 * of a dead worker; a living worker extends its stream's expiry itself.
 */
function createDelayedExpiry(redis: Redis): { add(stream: string): void } {
  const streams = new Set<string>();
  async function expireAll(): Promise<void> {
    const pipeline = redis.pipeline();
    for (const stream of streams) pipeline.expire(stream, TTL_SECONDS.replies);
    streams.clear();
    await pipeline.exec().catch(() => undefined);
  }
  return {
    add(stream) {
      if (streams.size === 0) setTimeout(() => void expireAll(), EXPIRE_DELAY_MS).unref();
      streams.add(stream);
    },
  };
}
