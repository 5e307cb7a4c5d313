import { setTimeout as sleep } from 'node:timers/promises';
import type { TestMongo } from '../mongo.ts';
import { until } from '../until.ts';

const QUIET_MS = 1_500;

/** Counters of MongoDB's writes since its start. */
export interface MongoWrites {
  /** Documents inserted, changed or removed, in all collections. */
  documents: number;
  /** Inserts into `inbox`, upserts included. */
  rows: number;
}

/** Reads MongoDB's own counters. */
async function countWrites(mongo: TestMongo): Promise<MongoWrites> {
  const { metrics } = (await mongo.serverStatus()) as { metrics: { document: DocumentCounts } };
  const { inserted, updated, deleted } = metrics.document;
  const top = (await mongo.db.admin().command({ top: 1 })) as TopResult;
  const inbox = top.totals[`${mongo.db.databaseName}.inbox`];
  const rows = (inbox?.insert.count ?? 0) + (inbox?.update.count ?? 0);
  return { documents: Number(inserted) + Number(updated) + Number(deleted), rows };
}

/** Returns how much MongoDB writes while a function runs. */
export async function countWritesDuring(
  mongo: TestMongo,
  task: () => Promise<void>,
): Promise<MongoWrites> {
  const before = await countWrites(mongo);
  await task();
  const after = await countWrites(mongo);
  return { documents: after.documents - before.documents, rows: after.rows - before.rows };
}

/** Waits until nothing was written for a moment: what connecting has caused is over. */
export async function untilNoWrites(mongo: TestMongo): Promise<void> {
  const isQuiet = async () => {
    const before = await countWrites(mongo);
    await sleep(QUIET_MS);
    return (await countWrites(mongo)).documents === before.documents;
  };
  await until(isQuiet, { timeoutMs: 30_000 });
}

type DocumentCounts = Record<'inserted' | 'updated' | 'deleted', number>;
type OperationCounts = Record<'insert' | 'update', { count: number }>;
interface TopResult {
  totals: Record<string, OperationCounts>;
}
