import { setTimeout as pause } from 'node:timers/promises';
import { isOutage } from '@carillon/store/mongo-errors';
import type { LeasedBatch } from './channel.ts';

/** Pause between two tries of a write. */
const RETRY_PAUSE_MS = 250;

/**
 * Repeats a write to a held batch until MongoDB responds. Only this process knows what a provider has responded, and the next
 * holder repeats each request whose outcome is not written. The lease is renewed meanwhile, and the write itself finds out
 * whether the claim was lost. A process that stops gives up when its lease may have ended.
 *
 * @param write changes nothing when it is repeated, or when the claim was lost
 * @param onError receives the first error
 * @throws any error that is no outage of MongoDB; the outage's when the process gives up
 */
export async function writeWhileHeld<T>(
  { isStopping, onError }: { isStopping(): boolean; onError(error: unknown): void },
  batch: Pick<LeasedBatch, 'isLeaseValid'>,
  write: () => Promise<T>,
): Promise<T> {
  for (let isFirst = true; ; isFirst = false) {
    try {
      return await write();
    } catch (error) {
      if (!isOutage(error) || (isStopping() && !batch.isLeaseValid())) throw error;
      if (isFirst) onError(error);
    }
    await pause(RETRY_PAUSE_MS);
  }
}
