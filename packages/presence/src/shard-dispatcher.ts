import { setTimeout as sleep } from 'node:timers/promises';
import { startInterval } from '@carillon/core/intervals';
import { createDeviceDispatch } from './device-dispatch.ts';
import { TTL_SECONDS } from './keys.ts';
import { BLOCK_MS } from './redis.ts';
import { createRedisTime } from './redis-time.ts';
import { type Reply, readReplyEntry } from './replies.ts';
import type { Shard } from './shards.ts';
import type { StreamReader } from './stream-reader.ts';

const MAINTENANCE_INTERVAL_MS = 3_000;
const READ_RETRY_DELAY_MS = 200;
const ENTRIES_PER_READ = 500;

/** A reply to a worker that may be dead. */
export interface DatedReply {
  reply: Reply;
  /** Time since it arrived; 0 while the time of the shard's server is unknown. */
  ageMs: number;
}

/** Sends messages to the gateways of one shard, and reads their replies. */
export type ShardDispatcher = Awaited<ReturnType<typeof createShardDispatcher>>;

/** Creates the dispatcher of a worker for one shard. */
export async function createShardDispatcher(
  shard: Shard,
  worker: string,
  onReply: (reply: Reply) => void,
) {
  const { redis, keys, run } = shard;
  const reader = await shard.openReader();
  const replyStream = keys.replyStream(worker);
  const time = createRedisTime(shard);

  async function keepStream(): Promise<void> {
    await redis.expire(replyStream, TTL_SECONDS.replies);
  }

  async function maintain(): Promise<void> {
    await Promise.allSettled([run(time.sample), run(keepStream)]);
  }
  async function readStream(formerWorker: string): Promise<DatedReply[]> {
    const entries = await redis.xrange(keys.replyStream(formerWorker), '-', '+');
    const now = time.now();
    return entries.flatMap(([id, fields]) => {
      const ageMs = Math.max(0, now - Number.parseInt(id, 10)) || 0;
      return readReplyEntry(fields).map((reply) => ({ reply, ageMs }));
    });
  }

  await maintain();
  const stopMaintaining = startInterval(() => void maintain(), MAINTENANCE_INTERVAL_MS);
  const stopFollowing = followReplies(reader, replyStream, onReply);

  const devices = createDeviceDispatch(shard);
  return {
    replyStream,
    /** Dispatch to single devices. */
    devices,
    /** Checks whether `devices` works, and the shard responds, as far as is known. */
    mayFindDevices: (): boolean => devices.isSupported && shard.state() === 'responding',
    /** Converts a time of the monotonic clock to that of the shard's server. Throws if that is not known and can't be read. */
    async toRedisTime(monotonic: number): Promise<number> {
      if (Number.isNaN(time.now())) await run(time.sample);
      return time.fromMonotonic(monotonic);
    },
    /**
     * Adds messages to the streams of gateways, in one round trip.
     *
     * @returns the id of each entry, or null where there is no stream
     * @throws if Redis fails
     */
    send: (messages: readonly { gateway: string; fields: string[] }[]): Promise<unknown[]> =>
      run(async () => {
        const pipeline = redis.pipeline();
        for (const { gateway, fields } of messages)
          pipeline.xadd(keys.gatewayStream(gateway), 'NOMKSTREAM', '*', ...fields);
        return ((await pipeline.exec()) ?? []).map(([error, id]) => {
          if (error) throw error;
          return id;
        });
      }),
    /** Returns the replies to another worker that the shard still holds. Throws if Redis fails. */
    readReplies: (formerWorker: string): Promise<DatedReply[]> =>
      run(() => readStream(formerWorker)),
    close(): void {
      stopMaintaining();
      stopFollowing();
      reader.disconnect();
    },
  };
}

/** Reads a worker's reply stream from its beginning until it is stopped. A failure of Redis only delays it. */
function followReplies(
  reader: StreamReader,
  stream: string,
  onReply: (reply: Reply) => void,
): () => void {
  let stopped = false;
  let lastId = '0-0';

  async function follow(): Promise<void> {
    while (!stopped) {
      try {
        const options = { count: ENTRIES_PER_READ, blockMs: BLOCK_MS };
        for (const [id, fields] of await reader.read(stream, lastId, options)) {
          lastId = id;
          for (const reply of readReplyEntry(fields)) onReply(reply);
        }
      } catch {
        if (!stopped) await sleep(READ_RETRY_DELAY_MS);
      }
    }
  }

  void follow();
  return () => {
    stopped = true;
  };
}
