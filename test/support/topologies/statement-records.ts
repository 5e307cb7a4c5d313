import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { SCATTERED_STATEMENTS } from '../../../packages/store/src/scattered-statements.ts';
import type {
  RecordedShape,
  StatementRecord,
} from '../../../packages/store/src/statement-recorder.ts';

/** Statements that the processes of a run have sent to MongoDB, from their records in a folder. */
export interface StatementReport {
  /** Services that have written a record. */
  services: string[];
  /** Number of statements. */
  total: number;
  /** Statements that every shard would execute, the most frequent first. */
  scattered: RecordedShape[];
  /** Statements that a cluster would refuse, or that are not classified, and scattered ones that are not listed. */
  mistakes: string[];
}

const LISTED = new Set(Object.values(SCATTERED_STATEMENTS).flatMap(({ statements }) => statements));

/** Reads the records in a folder. */
export function readStatementReport(folder: string): StatementReport {
  const records = readdirSync(folder).map(
    (name) => JSON.parse(readFileSync(join(folder, name), 'utf8')) as StatementRecord,
  );
  const shapes = sumShapes(records.flatMap((record) => record.shapes));
  const scattered = shapes.filter(({ target }) => target === 'all');
  const unfit = shapes.filter(({ target }) => target === 'refused' || target === 'unknown');
  return {
    services: [...new Set(records.map(({ appName }) => appName))].sort(),
    total: shapes.reduce((sum, { count }) => sum + count, 0),
    scattered,
    mistakes: [
      ...unfit.map(({ shape, target }) => `${target}: ${shape}`),
      ...scattered.flatMap(({ shape }) => (LISTED.has(shape) ? [] : [`not listed: ${shape}`])),
    ],
  };
}

function sumShapes(shapes: readonly RecordedShape[]): RecordedShape[] {
  const sums = new Map<string, RecordedShape>();
  for (const { shape, target, count } of shapes) {
    const sum = sums.get(`${shape} ${target}`) ?? { shape, target, count: 0 };
    sums.set(`${shape} ${target}`, { ...sum, count: sum.count + count });
  }
  return [...sums.values()].sort((a, b) => b.count - a.count);
}

/** Formats a report as lines of text: how often each scattered statement was sent. */
export function formatStatementReport({ total, scattered }: StatementReport): string {
  const sent = scattered.reduce((sum, { count }) => sum + count, 0);
  const lines = scattered.map(({ shape, count }) => `${String(count).padStart(8)} ${shape}`);
  return [`${sent} of ${total} statements go to all shards:`, ...lines].join('\n');
}
