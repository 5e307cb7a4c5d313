import { environment } from '../../services/delivery-worker/src/environment.ts';

/** Pending batches that need one worker: as many as it works on at once. The threshold in k8s/components/keda is the same. */
export const TARGET_PER_WORKER = environment.shape.CONCURRENCY.parse(undefined);

/** How many delivery-workers an autoscaler may run for a channel. */
export interface ScalerBounds {
  /** Pending batches that one worker is to have. */
  targetPerWorker: number;
  min: number;
  max: number;
}

/**
 * Computes the number of workers that an autoscaler requests: the highest `carillon_pending_batches` of all schedulers
 * by the target of one worker, rounded up and within the bounds. Without any value the number stays as it is.
 *
 * @param pending value of each scheduler; undefined where it is absent
 * @param current number of workers now
 */
export function desiredWorkers(
  pending: readonly (number | undefined)[],
  { targetPerWorker, min, max }: ScalerBounds,
  current: number,
): number {
  const values = pending.filter((value) => value !== undefined);
  if (values.length === 0) return current;
  return Math.min(max, Math.max(min, Math.ceil(Math.max(...values) / targetPerWorker)));
}
