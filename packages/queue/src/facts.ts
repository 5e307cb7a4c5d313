import { Redis } from 'ioredis';

const TIMEOUT_MS = 2_000;

/** What a Redis server says of itself. */
export interface RedisFacts {
  server: 'Redis' | 'Valkey';
  version: string;
  /** What it does when its memory is full. Jobs survive only `noeviction`. */
  maxmemoryPolicy: string;
}

/**
 * Asks a Redis server about itself, over a connection of its own.
 *
 * @throws when it doesn't answer within some 2 s
 */
export async function redisFacts(url: string): Promise<RedisFacts> {
  const redis = new Redis(url, {
    lazyConnect: true,
    connectTimeout: TIMEOUT_MS,
    commandTimeout: TIMEOUT_MS,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
  });
  let why: Error | undefined;
  redis.on('error', (error: Error) => {
    why = error;
  });
  try {
    await redis.connect();
    const info = `${await redis.info('server')}\n${await redis.info('memory')}`;
    return readInfo(info);
  } catch (error) {
    // The call itself is only told that the connection is closed.
    throw why ?? error;
  } finally {
    redis.disconnect();
  }
}

function readInfo(info: string): RedisFacts {
  const fieldOf = (name: string) => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1];
  const valkey = fieldOf('valkey_version');
  return {
    server: valkey === undefined ? 'Redis' : 'Valkey',
    version: valkey ?? fieldOf('redis_version') ?? 'of an unknown version',
    maxmemoryPolicy: fieldOf('maxmemory_policy') ?? 'unknown',
  };
}
