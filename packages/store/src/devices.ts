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

/** What is known of how to reach a device. */
export type ReachableDevice = Pick<
  DeviceDocument,
  '_id' | 'provider' | 'uninstalled' | 'unsubscribed'
>;

/** A device whose address its provider says is dead. */
export interface GoneDevice {
  token: string;
  address: string;
  flag: 'uninstalled' | 'unsubscribed';
  lastSeenAt?: Date;
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
    /** Where providers reach the devices of an app among these tokens, in no order; those deleted are left out. */
    addresses: (app: string, tokens: readonly string[]): Promise<ReachableDevice[]> =>
      devices
        .find<ReachableDevice>(
          { _id: { $in: [...tokens] }, app, deletedAt: { $exists: false } },
          {
            projection: { provider: 1, uninstalled: 1, unsubscribed: 1 },
            batchSize: tokens.length + 1,
          },
        )
        .toArray(),
    /** The devices of an app among these tokens that FCM reaches too. */
    async withFcmToken(app: string, tokens: readonly string[]): Promise<string[]> {
      const found = await devices
        .find(
          {
            _id: { $in: [...tokens] },
            app,
            deletedAt: { $exists: false },
            'provider.channel': 'fcm',
            uninstalled: { $ne: true },
          },
          { projection: { _id: 1 }, batchSize: tokens.length + 1 },
        )
        .toArray();
      return found.map(({ _id }) => _id);
    },
    /**
     * Flags devices that a provider told to be gone, but only those that haven't given an address after the
     * provider saw them last (guarantee G16).
     */
    async flagGone(gone: readonly GoneDevice[]): Promise<void> {
      if (gone.length === 0) return;
      await devices.bulkWrite(
        gone.map(({ token, address, flag, lastSeenAt }) => ({
          updateOne: {
            filter: {
              _id: token,
              'provider.address': address,
              'provider.since': { $lt: lastSeenAt ?? new Date(clock.now()) },
            },
            update: { $set: { [flag]: true } },
          },
        })),
        { ordered: false },
      );
    },
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
