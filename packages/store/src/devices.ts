import type { Db } from 'mongodb';
import type { Clock } from './clock.ts';
import { createDeviceLookups } from './device-lookups.ts';
import type { DeviceDocument } from './documents.ts';
import { createRegistering } from './registering.ts';

/** A sign of life. */
export interface Activity {
  token: string;
  /** Milliseconds since 1970, MongoDB's time. */
  at: number;
}

/** Registered devices. */
export function createDevices(db: Db, clock: Clock) {
  const devices = db.collection<DeviceDocument>('devices');

  return {
    ...createDeviceLookups(devices),
    ...createRegistering(devices, clock),
    /** A device with all its fields, of whatever app: the caller compares. */
    find: async (token: string) => (await devices.findOne({ _id: token })) ?? undefined,
    /** The devices of an app among these tokens with all their fields, in no order. */
    findAll: (app: string, tokens: readonly string[]) =>
      devices
        .find(
          { _id: { $in: [...tokens] }, app, deletedAt: { $exists: false } },
          { batchSize: tokens.length + 1 },
        )
        .toArray(),
    /** Notes signs of life, later ones only; devices of the same time share an update. */
    async touch(activities: readonly Activity[]): Promise<void> {
      const tokensAt = new Map<number, string[]>();
      for (const { token, at } of activities) {
        const second = Math.floor(at / 1_000) * 1_000;
        const tokens = tokensAt.get(second);
        if (tokens === undefined) tokensAt.set(second, [token]);
        else tokens.push(token);
      }
      if (tokensAt.size === 0) return;
      await devices.bulkWrite(
        [...tokensAt].map(([second, tokens]) => ({
          updateMany: {
            filter: { _id: { $in: tokens } },
            update: { $max: { lastActiveAt: new Date(second) } },
          },
        })),
        { ordered: false },
      );
    },
    /** An app's devices in order of token, from after `after`. */
    list: (app: string, after: string, limit: number) =>
      devices
        .find({ app, _id: { $gt: after }, deletedAt: { $exists: false } })
        .sort({ _id: 1 })
        .limit(limit)
        .toArray(),
  };
}
