import type { Db } from 'mongodb';
import { fromNow } from './clock.ts';
import type { DeviceDocument } from './documents.ts';

/** Lease of a lock: the maximum time that it outlives its process. */
const LEASE_MS = 5_000;

/**
 * Locks of a device's subscriptions, across processes: two calls that both count the device's topics before either adds
 * its own would pass the limit. A lock ends by itself `LEASE_MS` after it was acquired.
 */
export function createTopicChangeLocks(db: Db) {
  const devices = db.collection<DeviceDocument>('devices');
  return {
    /**
     * Acquires the lock of a device, unless another owner has it.
     *
     * @param owner random id of the call
     * @returns whether the lock is the owner's now; false also for a device that does not exist
     */
    async acquire(token: string, owner: string): Promise<boolean> {
      const isFree = {
        $lte: [{ $ifNull: ['$topicsLock.until', '$registeredAt'] }, '$$NOW'],
      };
      const { modifiedCount } = await devices.updateOne({ _id: token, $expr: isFree }, [
        { $set: { topicsLock: { owner: { $literal: owner }, until: fromNow(LEASE_MS) } } },
      ]);
      return modifiedCount === 1;
    },

    /** Releases a lock; does nothing when another owner has it by now. */
    async release(token: string, owner: string): Promise<void> {
      await devices.updateOne(
        { _id: token, 'topicsLock.owner': owner },
        { $unset: { topicsLock: true } },
      );
    },
  };
}
