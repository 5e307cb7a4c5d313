import { setTimeout as sleep } from 'node:timers/promises';
import { createBatcher } from '@carillon/core/batcher';
import { startInterval } from '@carillon/core/intervals';
import { TTL_SECONDS } from './keys.ts';
import type { PresenceServer } from './presence-server.ts';
import { BLOCK_MS, type Redis, readStream } from './redis.ts';
import { createRedisTime } from './redis-time.ts';
import { type Reply, readReplyEntry } from './replies.ts';

/** Interval between two renewals of the reply stream's TTL, each with a sample of Redis's time. */
const MAINTENANCE_INTERVAL_MS = 3_000;
const READ_RETRY_DELAY_MS = 200;
const ENTRIES_PER_READ = 500;
/** Maximum messages in a round trip, which carries their payloads. */
const MESSAGES_PER_CALL = 50;

/** A message, and the gateway in whose stream it is added. */
interface GatewayStreamMessage {
  gateway: string;
  fields: string[];
}

/** A reply to a worker that may be dead. */
export interface DatedReply {
  reply: Reply;
  /** Time since it arrived, milliseconds; 0 while the server's time is unknown. */
  ageMs: number;
}

/** Sends messages to gateways, and reads their replies. */
export type WorkerStream = Awaited<ReturnType<typeof createWorkerStream>>;

/** Creates the reply stream of a worker, and the sending of its messages. */
export async function createWorkerStream(
  server: PresenceServer,
  worker: string,
  onReply: (reply: Reply) => void,
) {
  const { redis, keys } = server;
  const reader = await server.openReader();
  const replyStream = keys.replyStream(worker);
  const time = createRedisTime(server);

  async function maintain(): Promise<void> {
    await Promise.allSettled([time.sample(), redis.expire(replyStream, TTL_SECONDS.replies)]);
  }
  await maintain();
  const stopMaintaining = startInterval(() => void maintain(), MAINTENANCE_INTERVAL_MS);
  const stopFollowing = followReplies(reader, replyStream, onReply);

  /** Messages of the same moment share a round trip. One whose stream can't be written fails alone. */
  const addMessage = createBatcher<GatewayStreamMessage, unknown>(
    'dispatch-push',
    async (messages) => {
      const pipeline = redis.pipeline();
      for (const { gateway, fields } of messages)
        pipeline.xadd(keys.gatewayStream(gateway), 'NOMKSTREAM', '*', ...fields);
      return ((await pipeline.exec()) ?? []).map(([error, id]) => error ?? id);
    },
    { maxBatchSize: MESSAGES_PER_CALL, maxInFlight: 2 },
  );

  return {
    /** Name of the stream that replies arrive in. */
    replyStream,
    /** Converts a time of the monotonic clock to the server's. Throws if that is not known and can't be read. */
    async toRedisTime(monotonic: number): Promise<number> {
      if (Number.isNaN(time.now())) await time.sample();
      return time.fromMonotonic(monotonic);
    },
    /**
     * Adds messages to the streams of gateways. Returns the id of each entry, or null where there is no stream. Throws if Redis
     * fails, or a stream can't be written.
     */
    send: (messages: readonly GatewayStreamMessage[]): Promise<unknown[]> =>
      Promise.all(messages.map(addMessage)),
    /** Returns the replies in the stream of a former worker. Throws if Redis fails. */
    async readReplies(stream: string): Promise<DatedReply[]> {
      const entries = await redis.xrange(stream, '-', '+');
      const now = time.now();
      return entries.flatMap(([id, fields]) => {
        const ageMs = Math.max(0, now - Number.parseInt(id, 10)) || 0;
        return readReplyEntry(fields).map((reply) => ({ reply, ageMs }));
      });
    },
    close(): void {
      stopMaintaining();
      stopFollowing();
      reader.disconnect();
    },
  };
}

/** Reads a worker's reply stream from its beginning until it is stopped. A failure of Redis only delays it. */
function followReplies(reader: Redis, stream: string, onReply: (reply: Reply) => void): () => void {
  let stopped = false;
  let lastId = '0-0';

  async function follow(): Promise<void> {
    while (!stopped) {
      try {
        const entries = await readStream(reader, stream, lastId, {
          count: ENTRIES_PER_READ,
          blockMs: BLOCK_MS,
        });
        for (const [id, fields] of entries) {
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
