import type { Cluster } from 'ioredis';
import { createShardKeys } from './keys.ts';
import { assertRedisWritable, connectNode, type RedisAddress } from './redis.ts';
import type { ShardServer } from './shard-server.ts';
import { createSlotReader } from './stream-reader.ts';

/**
 * Hash tags of the shards in a cluster, with their slots. The slots are evenly spaced, so that up to sixteen primaries with
 * ranges of equal size have about the same number of shards. One MGET reads all entries of a shard: with a tag for each
 * device, 1,000 devices would take nearly 1,000 commands (docs/scaling.md). Gateways and workers of different releases
 * find devices by these tags.
 */
export const CLUSTER_SHARDS = [
  ['04s', 512],
  ['003', 1_536],
  ['pt6', 2_560],
  ['4x6', 3_584],
  ['0ay', 4_608],
  ['0e9', 5_632],
  ['4mt', 6_656],
  ['4i4', 7_680],
  ['265', 8_704],
  ['22u', 9_728],
  ['c0h', 10_752],
  ['6zp', 11_776],
  ['gio', 12_800],
  ['5f', 13_824],
  ['6o2', 14_848],
  ['6kr', 15_872],
] as const;

/** Creates the shards of a cluster, all over one client. */
export function createClusterShards(cluster: Cluster, address: RedisAddress): ShardServer[] {
  const nodes = watchNodes(cluster);
  return CLUSTER_SHARDS.map(([tag, slot]) => {
    const keys = createShardKeys(tag);
    return {
      redis: cluster,
      keys,
      name: `slot ${slot}`,
      isReady: () => cluster.status === 'ready',
      onReconnect: (listener) => nodes.onChange(slot, listener),
      // In a script with a key of the shard: TIME alone would go to any node.
      time: async () =>
        (await cluster.eval("return redis.call('TIME')", 1, keys.probe)) as string[],
      assertWritable: () => assertRedisWritable(address, keys.probe),
      openReader: async () => createSlotReader(cluster, slot, (node) => connectNode(address, node)),
    };
  });
}

/** Watches which connection leads to the node of a slot: it is a new one after a failover, a move, or a break. */
function watchNodes(cluster: Cluster) {
  const watched: { slot: number; node: unknown; listener: () => void }[] = [];
  const findNode = (slot: number) => {
    const served = cluster.slots[slot]?.[0];
    return cluster
      .nodes('master')
      .find(({ options }) => `${options.host}:${options.port}` === served);
  };
  function check(): void {
    for (const one of watched) {
      const node = findNode(one.slot);
      if (node === undefined || node === one.node) continue;
      one.node = node;
      one.listener();
    }
  }
  // A change of the slots is known after a refresh, a new connection before it.
  cluster.on('refresh', check);
  cluster.on('+node', () => setImmediate(check));
  return {
    onChange: (slot: number, listener: () => void) =>
      void watched.push({ slot, node: findNode(slot), listener }),
  };
}
