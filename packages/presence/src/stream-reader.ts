import type { Cluster } from 'ioredis';
import type { Redis } from './redis.ts';

/** Least time between two requests of a reader for the slots of its cluster. */
const REFRESH_INTERVAL_MS = 1_000;

export type StreamEntry = [id: string, fields: string[]];

/** Reads streams of one shard over a connection of its own. */
export interface StreamReader {
  /**
   * Reads the entries after `lastId`, and waits up to `blockMs` for the first one.
   *
   * @throws if Redis fails
   */
  read(
    key: string,
    lastId: string,
    options: { count: number; blockMs: number },
  ): Promise<StreamEntry[]>;
  disconnect(): void;
}

/** Creates a reader over a connection. */
export function createStreamReader(redis: Redis): StreamReader {
  return {
    async read(key, lastId, { count, blockMs }) {
      const streams = await redis.xread('COUNT', count, 'BLOCK', blockMs, 'STREAMS', key, lastId);
      return streams?.[0]?.[1] ?? [];
    },
    disconnect: () => redis.disconnect(),
  };
}

/**
 * Creates a reader of streams in one slot of a cluster. It connects to the node that serves the slot: over one connection
 * to a node the blocking reads of several slots would wait for each other.
 *
 * @param connect opens a connection to a node, host:port
 */
export function createSlotReader(
  cluster: Cluster,
  slot: number,
  connect: (node: string) => Promise<Redis>,
): StreamReader {
  let current: { node: string; reader: StreamReader } | undefined;
  let isClosed = false;
  let refreshedAt = Number.NEGATIVE_INFINITY;

  /** The slot may have moved, or a replaced node may not respond. */
  function refreshSlots(): void {
    if (isClosed || performance.now() - refreshedAt < REFRESH_INTERVAL_MS) return;
    refreshedAt = performance.now();
    cluster.refreshSlotsCache();
  }

  function drop(): void {
    current?.reader.disconnect();
    current = undefined;
  }

  async function readerOfNode(): Promise<StreamReader> {
    const node = cluster.slots[slot]?.[0];
    if (node === undefined) throw new Error(`no node of the cluster serves the slot ${slot}`);
    if (current?.node === node) return current.reader;
    drop();
    const reader = createStreamReader(await connect(node));
    current = { node, reader };
    if (isClosed) drop();
    return reader;
  }

  return {
    async read(key, lastId, options) {
      try {
        return await (await readerOfNode()).read(key, lastId, options);
      } catch (error) {
        drop();
        refreshSlots();
        throw error;
      }
    },
    disconnect() {
      isClosed = true;
      drop();
    },
  };
}
