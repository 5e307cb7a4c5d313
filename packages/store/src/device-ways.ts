import { createBatcher } from '@carillon/core/batcher';
import {
  type Channel,
  findChannel,
  mayGoByFcm,
  type Platform,
  type ProviderAddress,
  type Way,
  wayOf,
} from '@carillon/core/channels';
import type { PushKind } from '@carillon/core/channels/apns';
import type { Collection, Document } from 'mongodb';
import { usesFcmForAndroid } from './apps.ts';
import type { AppDocument, DeviceDocument } from './documents.ts';
import { IS_NOT_FORMER } from './former-devices.ts';

/** A device as a recipient. */
export interface Recipient {
  token: string;
  platform: Platform;
  /** Absent: the way of the platform. */
  way?: Way;
  /** Another device has registered its address: only its own copy of the address reaches it. */
  isFormer?: boolean;
}

/** Checks whether a device can be reached. @param usesFcm whether its app uses FCM for Android */
export function isWithinReach({ platform, isFormer }: Recipient, usesFcm: boolean): boolean {
  return isFormer !== true || platform !== 'android' || usesFcm;
}

/**
 * Returns the way of a device that registers, for its document.
 *
 * @param address its address at a provider
 */
export function firstWay(
  address: Pick<ProviderAddress, 'channel'> | undefined,
): Pick<DeviceDocument, 'way'> {
  return address?.channel === 'fcm' ? { way: 'fcm' } : {};
}

/** Builds the way of a device that gets another address, or loses its own: one that has connected over MQTT keeps it. */
export function buildNextWay(address: Pick<ProviderAddress, 'channel'> | undefined): Document {
  return address?.channel === 'fcm'
    ? { $ifNull: ['$way', 'fcm'] }
    : { $cond: [{ $eq: ['$way', 'mqtt'] }, 'mqtt', '$$REMOVE'] };
}

/**
 * Returns the channel by which a device of an app gets its pushes, as it is shown to people: none if the device was
 * registered by a newer release than this process.
 */
export function shownWay(
  { platform, way }: Pick<DeviceDocument, 'platform' | 'way'>,
  app: Pick<AppDocument, 'fcm'> | undefined,
): { way?: Channel } {
  if (findChannel(platform) === undefined) return {};
  return { way: wayOf({ platform, way }, usesFcmForAndroid(app)) };
}

/** Returns the kind of notifications that a device's APNs token is for; undefined for `alert` and without such a token. */
export function pushKindOf({ provider }: Pick<DeviceDocument, 'provider'>): PushKind | undefined {
  return provider?.channel === 'apns' ? provider.kind : undefined;
}

/** Checks whether a connect of a device over MQTT changes what is stored of it. */
export function isChangedByConnect({
  platform,
  way,
  uninstalled,
  isIdle,
}: Pick<DeviceDocument, 'platform' | 'way' | 'uninstalled'> & { isIdle?: true }): boolean {
  return (platform === 'android' && way !== 'mqtt') || uninstalled === true || isIdle === true;
}

/** The ways of devices, which are stored with the devices only: a device changes its way with one write. */
export function createDeviceWays(devices: Collection<DeviceDocument>) {
  const markConnected = createBatcher<string, void>(
    'mark-connected',
    async (tokens) => {
      const isAndroid = { $eq: ['$platform', 'android'] };
      const isThere = { deletedAt: { $exists: false }, ...IS_NOT_FORMER };
      await devices.updateMany({ _id: { $in: tokens }, ...isThere }, [
        {
          $set: {
            way: { $cond: [isAndroid, 'mqtt', '$way'] },
            provider: { $cond: ['$uninstalled', '$$REMOVE', '$provider'] },
            uninstalled: '$$REMOVE',
            lastActiveAt: { $max: ['$lastActiveAt', '$$NOW'] },
          },
        },
      ]);
      return tokens.map(() => undefined);
    },
    { maxInFlight: 2 },
  );

  return {
    /**
     * Records that a device has connected over MQTT: an Android device goes by MQTT from now on, and one that its provider
     * has reported as gone is not. The address, which the provider does not accept any more, is removed.
     */
    markConnected,

    /** Checks whether an app has an iOS device that goes by FCM, by an index. */
    hasAppleByFcm: async (app: string): Promise<boolean> =>
      (await devices.findOne({ app, way: 'fcm', platform: 'ios' }, { projection: { _id: 1 } })) !==
      null,

    /**
     * Adds their ways to subscribers of topics. Of an app without a device that goes by FCM, only an index is read.
     *
     * @param usesFcm whether the app uses FCM for Android
     */
    async addWays<T extends { token: string; platform: Platform }>(
      app: string,
      subscribers: readonly T[],
      usesFcm: boolean,
    ): Promise<(T & { way?: Way })[]> {
      const candidates = subscribers.filter(({ platform }) => mayGoByFcm(platform, usesFcm));
      const byFcm = { app, way: 'fcm' } as const;
      const projection = { _id: 1 };
      if (candidates.length === 0 || (await devices.findOne(byFcm, { projection })) === null)
        return [...subscribers];
      const tokens = candidates.map(({ token }) => token);
      const found = await devices
        .find({ _id: { $in: tokens }, ...byFcm }, { projection, batchSize: tokens.length + 1 })
        .toArray();
      const tokensByFcm = new Set(found.map(({ _id }) => _id));
      return subscribers.map((subscriber) =>
        tokensByFcm.has(subscriber.token) ? { ...subscriber, way: 'fcm' as const } : subscriber,
      );
    },
  };
}
