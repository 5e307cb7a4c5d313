import { parseRedisUrl } from '@carillon/core/redis-url';
import { withTimeout } from '@carillon/core/with-timeout';
import { Cluster } from 'ioredis';
import { inspectCluster } from './inspect-cluster.ts';
import { inspectSentinels } from './inspect-sentinels.ts';
import { diagnoseRedis, probeRedis, type Redis, type RedisAddress } from './redis.ts';
import { parseMemory, readInfoField } from './redis-memory.ts';
import type { RedisNode, RedisTopology } from './redis-topology.ts';

const INSPECT_TIMEOUT_MS = 8_000;

/**
 * Reads the server that an address leads to: one server, or the primary of several. Its response shows whether it can be
 * reached, and the cause if not.
 *
 * @param wait ends the reading, which has no limit of its own
 * @throws the cause
 */
export function readPrimary(
  address: RedisAddress,
  wait: Parameters<typeof diagnoseRedis>[2],
): Promise<RedisNode> {
  const read = async (redis: Redis): Promise<RedisNode> => {
    // A server that loads its data refuses a PING and says so.
    const [node] = await Promise.all([readNode(redis, undefined), redis.ping()]);
    return node;
  };
  return diagnoseRedis(address, read, wait);
}

/**
 * Reads the servers behind an address, and whether they replace one that fails.
 *
 * @param known the primary, if it has been read
 * @throws if Redis does not respond within some seconds
 */
export async function inspectRedis(
  address: RedisAddress,
  known?: RedisNode,
): Promise<RedisTopology> {
  const target = parseRedisUrl(address.url);
  const signal = AbortSignal.timeout(INSPECT_TIMEOUT_MS);
  const primary = known ?? (await readPrimary(address, { signal }));
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
  const sections = await Promise.all([redis.info('server'), redis.info('memory')]);
  const info = sections.join('\n');
  const valkey = readInfoField(info, 'valkey_version');
  return {
    address,
    server: valkey === undefined ? 'Redis' : 'Valkey',
    version: valkey ?? readInfoField(info, 'redis_version') ?? 'of an unknown version',
    memory: parseMemory(info),
  };
}
