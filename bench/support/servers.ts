import { Redis } from 'ioredis';
import { type Db, MongoClient } from 'mongodb';
import type { Dev } from './stack.ts';

/** The benchmark's own connections to Redis and MongoDB, for measuring floors. */
export interface Servers {
  /** Writes with majority and journal, as the stack does. */
  mongo: Db;
  redis: Redis;
  close(): Promise<void>;
}

/** Connects with the drivers that the services use. */
export async function connectServers(dev: Pick<Dev, 'mongodb' | 'redis'>): Promise<Servers> {
  const client = new MongoClient(dev.mongodb, {
    writeConcern: { w: 'majority', journal: true },
    serverSelectionTimeoutMS: 5_000,
  });
  await client.connect();
  const redis = new Redis(dev.redis);
  return {
    mongo: client.db(),
    redis,
    async close() {
      redis.disconnect();
      await client.close();
    },
  };
}
