import { parseRedisUrl } from '@carillon/core/redis-url';
import { withTimeout } from '@carillon/core/with-timeout';
import { Cluster } from 'ioredis';
import { inspectCluster } from './inspect-cluster.ts';
import { inspectSentinels } from './inspect-sentinels.ts';
import { probeRedis, type Redis, type RedisAddress } from './redis.ts';
import type { RedisNode, RedisTopology } from './redis-topology.ts';

const INSPECT_TIMEOUT_MS = 8_000;

/**
 * Reads the servers behind an address, and whether they replace one that fails.
 *
 * @throws if Redis does not respond within some seconds
 */
export async function inspectRedis(address: RedisAddress): Promise<RedisTopology> {
  const target = parseRedisUrl(address.url);
  // The first response shows whether the primary can be reached, and the cause if not.
  const primary = await probeRedis(address, (redis) => readNode(redis, undefined));
  if (target.kind === 'server')
    return { kind: 'server', summary: 'one server', nodes: [primary], failoverFaults: [] };
  const inspecting =
    target.kind === 'sentinel'
      ? inspectSentinels(target, address, readNode)
      : probeRedis(
          address,
          async (redis) => {
            if (!(redis instanceof Cluster)) throw new Error('the address is not of a cluster');
            return inspectCluster(redis, readNode);
          },
          INSPECT_TIMEOUT_MS,
        );
  return { kind: target.kind, ...(await withTimeout(inspecting, INSPECT_TIMEOUT_MS, 'Redis')) };
}

async function readNode(redis: Redis, address: string | undefined): Promise<RedisNode> {
  const info = `${await redis.info('server')}\n${await redis.info('memory')}`;
  const valkey = readInfoField(info, 'valkey_version');
  return {
    address,
    server: valkey === undefined ? 'Redis' : 'Valkey',
    version: valkey ?? readInfoField(info, 'redis_version') ?? 'of an unknown version',
    maxmemoryPolicy: readInfoField(info, 'maxmemory_policy') ?? 'unknown',
  };
}

function readInfoField(info: string, name: string): string | undefined {
  return new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1];
}
