import type { Db, Document, Filter } from 'mongodb';
import type { DeviceDocument } from './documents.ts';
import { IDLE_DEVICES_INDEX } from './migrate.ts';

/** Matches the devices in the index of idle ones: a filter without it does not use that index. */
const IS_LISTED = { deletedAt: null, replacedBy: null } as unknown as Filter<DeviceDocument>;

/** Days without being seen after which the reports count a device as idle. */
export const IDLE_AFTER_DAYS = 90;
/** Maximum time by which the stored time of a device is older than its provider's last acceptance. */
export const ACCEPTANCE_PRECISION_MS = 86_400_000;

/** A device that was not seen for some time. */
export interface IdleDevice {
  token: string;
  lastActiveAt: Date;
  /** When a prune has marked it. */
  pruneMarkedAt?: Date;
  /** When it has registered its provider address. */
  addressSince?: Date;
  /** Its provider has reported neither that the app was removed nor that the subscription has ended. */
  hasLiveAddress: boolean;
}

/** Position in a list of idle devices. */
export type IdleCursor = Pick<IdleDevice, 'token' | 'lastActiveAt'>;

type Found = Pick<
  DeviceDocument,
  '_id' | 'lastActiveAt' | 'pruneMarkedAt' | 'provider' | 'uninstalled' | 'unsubscribed'
>;

const IDLE_FIELDS = {
  lastActiveAt: 1,
  pruneMarkedAt: 1,
  'provider.since': 1,
  uninstalled: 1,
  unsubscribed: 1,
} as const;

/** Reads and marks devices that were not seen for some time; former devices are not among them. */
export function createIdleDevices(db: Db) {
  const devices = db.collection<DeviceDocument>('devices');
  return {
    /** Lists an app's devices last seen at `before` or earlier, those seen longest ago first. */
    async list(
      app: string,
      before: Date,
      after: IdleCursor | undefined,
      limit: number,
    ): Promise<IdleDevice[]> {
      const found = await devices
        .find<Found>(
          { app, ...buildRange(before, after), ...IS_LISTED },
          { projection: IDLE_FIELDS, hint: IDLE_DEVICES_INDEX, batchSize: limit + 1 },
        )
        .sort({ lastActiveAt: 1, _id: 1 })
        .limit(limit)
        .toArray();
      return found.map(toIdleDevice);
    },

    /** Counts an app's devices last seen at `before` or earlier, `limit` at most. */
    count: (app: string, before: Date, limit: number): Promise<number> =>
      devices.countDocuments(
        { app, lastActiveAt: { $lte: before }, ...IS_LISTED },
        { limit, hint: IDLE_DEVICES_INDEX },
      ),

    /** Marks those of these devices that were not seen since `before`; an older mark stays. */
    async mark(app: string, tokens: readonly string[], before: Date): Promise<void> {
      if (tokens.length === 0) return;
      await devices.updateMany(
        { _id: { $in: [...tokens] }, app, lastActiveAt: { $lte: before }, ...IS_LISTED },
        [{ $set: { pruneMarkedAt: { $ifNull: ['$pruneMarkedAt', '$$NOW'] } } }],
      );
    },
  };
}

/** Each branch has bounds of its own in the index, however many devices were last seen at the same time. */
function buildRange(before: Date, after: IdleCursor | undefined): Document {
  if (after === undefined) return { lastActiveAt: { $lte: before } };
  const { lastActiveAt, token } = after;
  return {
    $or: [
      { lastActiveAt, _id: { $gt: token } },
      { lastActiveAt: { $gt: lastActiveAt, $lte: before } },
    ],
  };
}

function toIdleDevice({
  _id: token,
  lastActiveAt,
  pruneMarkedAt,
  provider,
  uninstalled,
  unsubscribed,
}: Found): IdleDevice {
  return {
    ...{ token, lastActiveAt },
    ...(pruneMarkedAt && { pruneMarkedAt }),
    ...(provider && { addressSince: provider.since }),
    hasLiveAddress: provider !== undefined && !uninstalled && !unsubscribed,
  };
}
