import { describeRedisUrl, splitRedisUrls } from '@carillon/core/redis-url';
import { Cluster } from 'ioredis';
import { createClusterShards } from './cluster-shards.ts';
import { createShardKeys } from './keys.ts';
import {
  assertRedisWritable,
  connectRedis,
  pingRedis,
  type Redis,
  type RedisAddress,
} from './redis.ts';
import { createChoice } from './shard-choice.ts';
import { createShardsHealth, type ShardHealth } from './shard-health.ts';
import type { ShardServer } from './shard-server.ts';
import { createStreamReader } from './stream-reader.ts';

/**
 * A part of presence. It holds the entries of some devices, and for these a lease and a stream of each gateway and a
 * reply stream of each worker, so that a failure of its server concerns these devices only. One server is one shard; so is
 * each server of a list; a cluster has several, each in a slot of its own.
 */
export interface Shard extends ShardServer, ShardHealth {
  index: number;
}

/** All shards of presence. */
export interface Shards {
  all: readonly Shard[];
  /** Returns the shard that has the entry of a device, or another key. */
  of(key: string): Shard;
  /** Names the list of servers: processes with another list find devices elsewhere. One server is always the same list. */
  list: string;
  close(): void;
}

/** Checks that one of the servers of presence responds. Throws the cause, within about 2 s. */
export async function pingShards(address: RedisAddress): Promise<void> {
  const pings = listAddresses(address).map(pingRedis);
  await Promise.any(pings).catch(() => pings[0]);
}

/**
 * Connects to the servers of presence. Resolves when all are connected, or after 2 s without.
 *
 * @param address.url one address, or several of servers or Sentinels, separated by commas or spaces
 * @param onFailure is called when a shard of several begins to fail
 */
export async function connectShards(
  address: RedisAddress,
  onFailure: (error: Error) => void = () => undefined,
): Promise<Shards> {
  const connections = await Promise.all(
    listAddresses(address).map(async (one) => ({ address: one, redis: await connectRedis(one) })),
  );
  const servers = connections.flatMap((connection) =>
    connection.redis instanceof Cluster
      ? createClusterShards(connection.redis, connection.address)
      : [createServerShard(connection.redis, connection.address)],
  );
  const health = createShardsHealth(servers, onFailure);
  const all = servers.map((server, index) => ({
    ...server,
    ...(health[index] as ShardHealth),
    index,
  }));
  const choose = createChoice(servers.map(({ name }) => name));
  return {
    all,
    of: (key) => all[choose(key)] as Shard,
    list: nameList(servers),
    close() {
      for (const shard of all) shard.stop();
      for (const { redis } of connections) redis.disconnect();
    },
  };
}

function listAddresses({ url, ca }: RedisAddress): RedisAddress[] {
  return splitRedisUrls(url).map((one) => ({ url: one, ca }));
}

function nameList(servers: readonly ShardServer[]): string {
  if (servers.length === 1) return 'one';
  return servers
    .map(({ name }) => name)
    .sort()
    .join(' ');
}

function createServerShard(redis: Redis, address: RedisAddress): ShardServer {
  return {
    redis,
    keys: createShardKeys(),
    name: describeRedisUrl(address.url),
    isReady: () => redis.status === 'ready',
    onReconnect: (listener) => void redis.on('ready', listener),
    time: () => redis.time(),
    assertWritable: () => assertRedisWritable(address),
    openReader: async () => createStreamReader(await connectRedis(address, 'blocking')),
  };
}
