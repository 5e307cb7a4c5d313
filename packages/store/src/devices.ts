import { createGroup } from '@carillon/core/group';
import { newDeviceToken } from '@carillon/core/ids';
import { LIMITS } from '@carillon/core/limits';
import type { Platform } from '@carillon/core/platforms';
import type { Db } from 'mongodb';
import type { Clock } from './clock.ts';
import type { DeviceDocument } from './documents.ts';

/** What a send needs to know of a device. */
export type Recipient = { token: string; platform: Platform };
type Found = Pick<DeviceDocument, '_id' | 'app' | 'platform' | 'deletedAt'>;
/** What a connect needs to know of a device. */
export type Connecting = Pick<DeviceDocument, 'app' | 'platform' | 'deletedAt' | 'authDigest'>;
/** A sign of life. */
export interface Activity {
  token: string;
  /** Milliseconds since 1970, MongoDB's time. */
  at: number;
}

const QUERIES_IN_FLIGHT = 8;

/** Registered devices. */
export function createDevices(db: Db, clock: Clock) {
  const devices = db.collection<DeviceDocument>('devices');

  const findSome = async (tokens: string[], apps: string[]): Promise<Found[]> =>
    devices
      .find(
        { _id: { $in: tokens }, app: { $in: apps } },
        // One batch for all: the default of 101 would cost a second round trip.
        { projection: { app: 1, platform: 1, deletedAt: 1 }, batchSize: tokens.length + 1 },
      )
      .toArray();

  const findGrouped = createGroup<{ app: string; token: string }, Found | undefined>(
    async (wanted) => {
      const apps = [...new Set(wanted.map((one) => one.app))];
      const found = await findSome(
        wanted.map((one) => one.token),
        apps,
      );
      const byToken = new Map(found.map((device) => [device._id, device]));
      return wanted.map(({ app, token }) => {
        const device = byToken.get(token);
        return device?.app === app ? device : undefined;
      });
    },
    { inFlight: 4 },
  );

  async function findMany(app: string, tokens: readonly string[]): Promise<Found[]> {
    const found: Found[] = [];
    let next = 0;
    async function work(): Promise<void> {
      while (next < tokens.length) {
        const some = tokens.slice(next, next + LIMITS.batchRecipients);
        next += some.length;
        for (const device of await findSome(some, [app])) found.push(device);
      }
    }
    await Promise.all(Array.from({ length: QUERIES_IN_FLIGHT }, work));
    return found;
  }

  const findForConnect = createGroup<string, Connecting | undefined>(
    async (tokens) => {
      const found = await devices
        .find(
          { _id: { $in: tokens } },
          {
            projection: { app: 1, platform: 1, deletedAt: 1, authDigest: 1 },
            batchSize: tokens.length + 1,
          },
        )
        .toArray();
      const byToken = new Map(found.map((device) => [device._id, device]));
      return tokens.map((token) => byToken.get(token));
    },
    { inFlight: 2 },
  );

  return {
    /** Registers a device and returns its token. */
    async register(app: string, platform: Platform): Promise<string> {
      const _id = newDeviceToken();
      const now = new Date(clock.now());
      await devices.insertOne({ _id, app, platform, registeredAt: now, lastActiveAt: now });
      return _id;
    },
    /** One device of an app; undefined when it is absent, deleted or another app's. Lone look-ups share round trips. */
    async findRecipient(app: string, token: string): Promise<Recipient | undefined> {
      const device = await findGrouped({ app, token });
      if (device === undefined || device.deletedAt !== undefined) return undefined;
      return { token, platform: device.platform };
    },
    /** The devices of an app among these tokens, in no order; absent, deleted and foreign ones are left out. */
    async findRecipients(app: string, tokens: readonly string[]): Promise<Recipient[]> {
      const found = await findMany(app, tokens);
      return found.flatMap(({ _id, platform, deletedAt }) =>
        deletedAt === undefined ? [{ token: _id, platform }] : [],
      );
    },
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
    /** What a connect needs; undefined when unknown. Lone look-ups share round trips. */
    findForConnect,
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
