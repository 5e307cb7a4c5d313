import type { ShardKeys } from './keys.ts';
import type { Redis } from './redis.ts';
import type { StreamReader } from './stream-reader.ts';

/** Server of a shard. */
export interface ShardServer {
  redis: Redis;
  keys: ShardKeys;
  /** Address of the shard, for logs. */
  name: string;
  isReady(): boolean;
  /** Calls back when the server is connected again: it may have lost its last seconds. */
  onReconnect(listener: () => void): void;
  /** Reads the server's clock. */
  time(): Promise<readonly (number | string)[]>;
  /** Checks over a connection of its own that the server responds and takes writes. Throws the cause. */
  assertWritable(): Promise<void>;
  /** Opens a connection for blocking reads. */
  openReader(): Promise<StreamReader>;
}
