import { createGroup } from '@carillon/core/group';
import { LIMITS } from '@carillon/core/limits';
import type { Platform } from '@carillon/core/platforms';
import type { Collection } from 'mongodb';
import type { DeviceDocument } from './documents.ts';

/** A device as a recipient. */
export interface Recipient {
  token: string;
  platform: Platform;
}

/** What a connect needs to know of a device. */
export type Connecting = Pick<DeviceDocument, 'app' | 'platform' | 'deletedAt' | 'authDigest'>;

type Found = Pick<DeviceDocument, '_id' | 'app' | 'platform' | 'deletedAt'>;

/** More would only hold more of a large audience in memory at once. */
const QUERIES_IN_FLIGHT = 4;

/** The look-ups of devices that happen by the thousand: many tokens a query, lone ones together. */
export function createDeviceLookups(devices: Collection<DeviceDocument>) {
  const findSome = (tokens: string[], apps: string[]): Promise<Found[]> =>
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
      const tokens = wanted.map((one) => one.token);
      const byToken = new Map((await findSome(tokens, apps)).map((one) => [one._id, one]));
      return wanted.map(({ app, token }) => {
        const device = byToken.get(token);
        return device?.app === app ? device : undefined;
      });
    },
    { inFlight: 4 },
  );

  /** Grouped by the server: a thousand tokens in an array are a third of the work of a thousand documents. */
  async function findPage(app: string, tokens: readonly string[]): Promise<Recipient[]> {
    const groups = await devices
      .aggregate<{ _id: Platform; tokens: string[] }>([
        { $match: { _id: { $in: tokens }, app, deletedAt: { $exists: false } } },
        { $group: { _id: '$platform', tokens: { $push: '$_id' } } },
      ])
      .toArray();
    return groups.flatMap(({ _id: platform, tokens: some }) =>
      some.map((token) => ({ token, platform })),
    );
  }

  async function findMany(app: string, tokens: readonly string[]): Promise<Recipient[]> {
    const found: Recipient[] = [];
    let next = 0;
    async function work(): Promise<void> {
      while (next < tokens.length) {
        const some = tokens.slice(next, next + LIMITS.batchRecipients);
        next += some.length;
        for (const recipient of await findPage(app, some)) found.push(recipient);
      }
    }
    await Promise.all(Array.from({ length: QUERIES_IN_FLIGHT }, work));
    return found;
  }

  const findForConnect = createGroup<string, Connecting | undefined>(
    async (tokens) => {
      const projection = { app: 1, platform: 1, deletedAt: 1, authDigest: 1 };
      const found = await devices
        .find({ _id: { $in: tokens } }, { projection, batchSize: tokens.length + 1 })
        .toArray();
      const byToken = new Map(found.map((device) => [device._id, device]));
      return tokens.map((token) => byToken.get(token));
    },
    { inFlight: 2 },
  );

  return {
    /** One device of an app; undefined when it is absent, deleted or another app's. */
    async findRecipient(app: string, token: string): Promise<Recipient | undefined> {
      const device = await findGrouped({ app, token });
      if (device === undefined || device.deletedAt !== undefined) return undefined;
      return { token, platform: device.platform };
    },
    /** The devices of an app among these tokens, in no order; absent, deleted and foreign ones are left out. */
    findRecipients: findMany,
    /** What a connect needs; undefined when unknown. */
    findForConnect,
  };
}
