import type { Redis } from '../../packages/presence/src/redis.ts';
import { listKeys } from './redis.ts';

/** A key of Redis and its whole value, as text. */
export interface RedisEntry {
  key: string;
  type: string;
  text: string;
}

const READERS: Record<string, (redis: Redis, key: string) => Promise<unknown>> = {
  string: (redis, key) => redis.getBuffer(key).then((value) => value?.toString('latin1')),
  hash: (redis, key) => redis.hgetall(key),
  list: (redis, key) => redis.lrange(key, 0, -1),
  set: (redis, key) => redis.smembers(key),
  zset: (redis, key) => redis.zrange(key, '0', '-1'),
  stream: (redis, key) => redis.xrange(key, '-', '+'),
};

/**
 * Reads all data of Redis. DUMP can not be used to search for a text: it compresses long values, and a compressed text is
 * cut into pieces of 32 bytes.
 *
 * @throws for a type that it can't read
 */
export async function readRedisContents(redis: Redis): Promise<RedisEntry[]> {
  const keys = await listKeys(redis, '*');
  return Promise.all(
    keys.map(async (key) => {
      const type = await redis.type(key);
      // It has expired meanwhile.
      if (type === 'none') return { key, type, text: '' };
      const read = READERS[type];
      if (read === undefined) throw new Error(`the key ${key} is of type ${type}`);
      return { key, type, text: JSON.stringify(await read(redis, key)) ?? '' };
    }),
  );
}
