import { probeRedis, type RedisAddress } from '@carillon/presence/redis';

/** Server data of a Redis. */
export interface RedisInfo {
  server: 'Redis' | 'Valkey';
  version: string;
  /** Eviction policy for a full memory. Jobs survive only with `noeviction`. */
  maxmemoryPolicy: string;
}

/**
 * Reads the server data of a Redis over a separate connection.
 *
 * @throws if the server does not respond within about 2 s
 */
export function fetchRedisInfo(server: RedisAddress): Promise<RedisInfo> {
  return probeRedis(server, async (redis) =>
    parseRedisInfo(`${await redis.info('server')}\n${await redis.info('memory')}`),
  );
}

function parseRedisInfo(info: string): RedisInfo {
  const readField = (name: string) => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1];
  const valkey = readField('valkey_version');
  return {
    server: valkey === undefined ? 'Redis' : 'Valkey',
    version: valkey ?? readField('redis_version') ?? 'of an unknown version',
    maxmemoryPolicy: readField('maxmemory_policy') ?? 'unknown',
  };
}
