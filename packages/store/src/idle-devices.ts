import type { Channel } from '@carillon/core/channels';
import { LIMITS } from '@carillon/core/limits';
import type { Db, Document, Filter } from 'mongodb';
import type { DeviceDocument } from './documents.ts';
import { IDLE_DEVICES_INDEX } from './migrate.ts';

/** Matches the devices in the index of idle ones: a filter without it does not use that index. */
const IS_LISTED = { deletedAt: null, replacedBy: null } as unknown as Filter<DeviceDocument>;

/**
 * Time since a device was last seen from which its CONNECT, or a request to the API, records it before it is accepted: a day less
 * than the shortest time of a prune, by which other records may be late.
 */
export const IDLE_AT_CONNECT_MS = (LIMITS.pruneDaysMin - 1) * 86_400_000;
/** Days without being seen after which the reports count a device as idle. */
export const IDLE_AFTER_DAYS = 90;
/** Maximum time by which the stored time of a device is older than its provider's last acceptance. */
export const ACCEPTANCE_PRECISION_MS = 86_400_000;

/** Time after which MongoDB ends a count. */
const COUNT_MAX_TIME_MS = 5_000;

/** A device that was not seen for some time. */
export interface IdleDevice {
  token: string;
  lastActiveAt: Date;
  /** When it has registered its provider address. */
  addressSince?: Date;
  importedAt?: Date;
  /** Of its provider address, unless the provider has reported that the app was removed or the subscription has ended. */
  liveChannel?: Channel;
}

/** Position in a list of idle devices. */
export type IdleCursor = Pick<IdleDevice, 'token' | 'lastActiveAt'>;

type Found = Pick<
  DeviceDocument,
  '_id' | 'lastActiveAt' | 'importedAt' | 'provider' | 'uninstalled' | 'unsubscribed'
>;

const IDLE_FIELDS = {
  lastActiveAt: 1,
  importedAt: 1,
  'provider.since': 1,
  'provider.channel': 1,
  uninstalled: 1,
  unsubscribed: 1,
} as const;

/** Reads devices that were not seen for some time; former devices are not among them. */
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

    /**
     * Counts an app's devices last seen at `before` or earlier, without those that were imported since. Reads `limit` at most: a
     * larger app has at least as many as this returns.
     *
     * @throws MongoServerError after five seconds
     */
    async count(app: string, before: Date, limit: number): Promise<number> {
      const [counted] = await devices
        .aggregate<{ n: number }>(
          [
            { $match: { app, lastActiveAt: { $lte: before }, ...IS_LISTED } },
            { $limit: limit },
            { $match: { importedAt: { $not: { $gt: before } } } },
            { $count: 'n' },
          ],
          { hint: IDLE_DEVICES_INDEX, maxTimeMS: COUNT_MAX_TIME_MS },
        )
        .toArray();
      return counted?.n ?? 0;
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
  importedAt,
  provider,
  uninstalled,
  unsubscribed,
}: Found): IdleDevice {
  return {
    ...{ token, lastActiveAt },
    ...(importedAt && { importedAt }),
    ...(provider && { addressSince: provider.since }),
    ...(provider && !uninstalled && !unsubscribed && { liveChannel: provider.channel }),
  };
}
