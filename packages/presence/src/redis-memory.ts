import { Cluster } from 'ioredis';
import type { Redis } from './redis.ts';

/** Memory of a Redis server, and what it does when it is full. */
export interface RedisMemory {
  usedBytes: number;
  /** Limit of the memory (`maxmemory`); 0 without one. */
  maxBytes: number;
  /** Eviction policy for a full memory. Jobs survive only with `noeviction`. */
  policy: string;
}

/** Reads the memory of the server of a connection, or of each primary of a cluster. Throws if Redis fails. */
export function readMemory(redis: Redis): Promise<RedisMemory[]> {
  const servers = redis instanceof Cluster ? redis.nodes('master') : [redis];
  return Promise.all(servers.map(async (server) => parseMemory(await server.info('memory'))));
}

/** Parses the section `memory` of INFO. */
export function parseMemory(info: string): RedisMemory {
  return {
    usedBytes: Number(readInfoField(info, 'used_memory') ?? 0),
    maxBytes: Number(readInfoField(info, 'maxmemory') ?? 0),
    policy: readInfoField(info, 'maxmemory_policy') ?? 'unknown',
  };
}

/** Returns the used share of the limit, above 1 when it is exceeded; 0 without a limit. */
export function usedShare({ usedBytes, maxBytes }: Omit<RedisMemory, 'policy'>): number {
  return maxBytes === 0 ? 0 : usedBytes / maxBytes;
}

/** Returns a field of INFO; undefined without it. */
export function readInfoField(info: string, name: string): string | undefined {
  return new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1];
}
