import { Cluster } from 'ioredis';
import { createPresenceKeys, type PresenceKeys } from './keys.ts';
import { readScript } from './read-script.ts';
import { assertRedisWritable, connectRedis, type Redis, type RedisAddress } from './redis.ts';

/** Hash tag of all keys of presence in a cluster, and its slot: one MGET, pipeline or script may use any of them. */
const CLUSTER_TAG = 'presence';
export const CLUSTER_SLOT = 15_428;
const READ_TIME = readScript('read-time');

/** The Redis of presence: a server, the primary that Sentinels name, or the node of a cluster that serves its slot. */
export interface PresenceServer {
  redis: Redis;
  keys: PresenceKeys;
  isReady(): boolean;
  /** Calls back when the server is connected again: it may have lost its last seconds. */
  onReconnect(listener: () => void): void;
  /** Reads the server's clock. */
  time(): Promise<readonly (number | string)[]>;
  /** Checks over a connection of its own that the server responds and takes writes. Throws the cause. */
  assertWritable(): Promise<void>;
  /** Opens a connection for blocking reads. */
  openReader(): Promise<Redis>;
  close(): void;
}

/** Connects to the Redis of presence. Resolves when it is connected, or after 2 s without. */
export async function connectPresence(address: RedisAddress): Promise<PresenceServer> {
  const redis = await connectRedis(address);
  const server = {
    redis,
    isReady: () => redis.status === 'ready',
    openReader: () => connectRedis(address, 'blocking'),
    close: () => redis.disconnect(),
  };
  if (redis instanceof Cluster) {
    const keys = createPresenceKeys(CLUSTER_TAG);
    return {
      ...server,
      keys,
      onReconnect: (listener) => watchNode(redis, listener),
      time: async () => (await redis.eval(READ_TIME, 1, keys.probe)) as string[],
      assertWritable: () => assertRedisWritable(address, keys.probe),
    };
  }
  return {
    ...server,
    keys: createPresenceKeys(),
    onReconnect: (listener) => void redis.on('ready', listener),
    time: () => redis.time(),
    assertWritable: () => assertRedisWritable(address),
  };
}

/** Watches which connection leads to the slot's node: it is a new one after a failover, a move, or a break. */
function watchNode(cluster: Cluster, onChange: () => void): void {
  const findNode = () => {
    const served = cluster.slots[CLUSTER_SLOT]?.[0];
    return cluster
      .nodes('master')
      .find(({ options }) => `${options.host}:${options.port}` === served);
  };
  let known = findNode();
  function check(): void {
    const node = findNode();
    if (node === undefined || node === known) return;
    known = node;
    onChange();
  }
  // A change of the slots is known after a refresh, a new connection before it.
  cluster.on('refresh', check);
  cluster.on('+node', () => setImmediate(check));
}
