import { readMetric } from '../../test/support/metric-values.ts';
import type { Stack } from './stack.ts';

/** Runs of batches by their end, for each delivery-worker. */
export type BatchRuns = readonly Readonly<Record<string, number>>[];

/** Reads how many batches each delivery-worker has run since its start; a single push is one batch. */
export function readBatchRuns({ dev }: Pick<Stack, 'dev'>): Promise<BatchRuns> {
  const workers = dev.processes.filter(({ service }) => service === 'delivery-worker');
  return Promise.all(workers.map(({ ops }) => readMetric(ops, 'carillon_works_total')));
}

/** Returns the runs with an end since an earlier reading, for each worker. */
export function countRunsSince(before: BatchRuns, after: BatchRuns, end: string): number[] {
  return after.map((runs, worker) => (runs[end] ?? 0) - (before[worker]?.[end] ?? 0));
}
