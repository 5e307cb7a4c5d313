import { type Db, MongoClient } from 'mongodb';
import type { Dev } from './stack/dev-file.ts';

/** The stack's database, to read and to change. */
export interface TestMongo {
  db: Db;
  /** `serverStatus`, of which a test picks what it counts. */
  serverStatus(): Promise<Record<string, unknown>>;
  close(): Promise<void>;
}

/** Opens a connection of the test's own to the stack's MongoDB; fails after 30 s without one. */
export async function openMongo(dev: Pick<Dev, 'mongodb'>): Promise<TestMongo> {
  const client = new MongoClient(dev.mongodb, { serverSelectionTimeoutMS: 30_000 });
  await client.connect();
  const db = client.db();
  return {
    db,
    serverStatus: () => db.admin().serverStatus(),
    close: () => client.close(),
  };
}
