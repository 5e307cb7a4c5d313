import { setTimeout as sleep } from 'node:timers/promises';
import type { TestMongo } from '../mongo.ts';
import { until } from '../until.ts';

const CALM_MS = 1_500;

/** What MongoDB has written since it began. */
export interface Writes {
  /** Documents inserted, changed or removed, in all collections. */
  documents: number;
  /** Inserts into `inbox`, upserts included. */
  rows: number;
}

/** Reads MongoDB's own counters. */
async function countWrites(mongo: TestMongo): Promise<Writes> {
  const { metrics } = (await mongo.serverStatus()) as { metrics: { document: DocumentCounts } };
  const { inserted, updated, deleted } = metrics.document;
  const top = (await mongo.db.admin().command({ top: 1 })) as Top;
  const inbox = top.totals[`${mongo.db.databaseName}.inbox`];
  const rows = (inbox?.insert.count ?? 0) + (inbox?.update.count ?? 0);
  return { documents: Number(inserted) + Number(updated) + Number(deleted), rows };
}

/** What a piece of work has MongoDB write. */
export async function writesDuring(mongo: TestMongo, work: () => Promise<void>): Promise<Writes> {
  const before = await countWrites(mongo);
  await work();
  const after = await countWrites(mongo);
  return { documents: after.documents - before.documents, rows: after.rows - before.rows };
}

/** Waits until nothing was written for a moment: what connecting has caused is over. */
export async function untilCalm(mongo: TestMongo): Promise<void> {
  const calm = async () => {
    const before = await countWrites(mongo);
    await sleep(CALM_MS);
    return (await countWrites(mongo)).documents === before.documents;
  };
  await until(calm, { timeoutMs: 30_000 });
}

type DocumentCounts = Record<'inserted' | 'updated' | 'deleted', number>;
type Counted = Record<'insert' | 'update', { count: number }>;
interface Top {
  totals: Record<string, Counted>;
}
