import { newObjectId } from '@carillon/core/ids';
import type { Collection, Db, UpdateFilter } from 'mongodb';
import type { Clock } from './clock.ts';
import type { AppDocument } from './documents.ts';
import { isDuplicateKey } from './mongo-errors.ts';

/** Settings of an app that an operator may change. */
export type AppSettings = Pick<
  Partial<AppDocument>,
  | 'name'
  | 'payloadLimit'
  | 'dataString'
  | 'registrationClosed'
  | 'registrationsPerHour'
  | 'fcm'
  | 'fcmNotification'
  | 'bundleIds'
  | 'webHosts'
> & {
  /** Null means that no device is pruned. */
  pruneAfterDays?: number | null;
};

/** Name and account of an app. */
export type AppOwner = Pick<AppDocument, '_id' | 'name' | 'account'>;

/** An app that prunes devices. */
export type PruningApp = Pick<AppDocument, '_id' | 'acceptancesSince'> & { pruneAfterDays: number };

/** Checks whether an app uses FCM for Android devices. */
export function usesFcmForAndroid(app: Pick<AppDocument, 'fcm'> | undefined): boolean {
  return app?.fcm !== undefined && app.fcm !== null;
}

/** Apps: the tenants. */
export function createApps(db: Db, clock: Clock) {
  const apps = db.collection<AppDocument>('apps');
  return {
    /** Creates an app of an account and returns its id. */
    async create(name: string, account: string): Promise<string> {
      const _id = newObjectId();
      await apps.insertOne({ _id, account, name, createdAt: new Date(clock.now()) });
      return _id;
    },
    find: async (id: string) => (await apps.findOne({ _id: id })) ?? undefined,
    /** Lists apps after the id `after`, in order of id: those of one account, of some, or of all. */
    list: (account: string | readonly string[] | undefined, after: string, limit: number) =>
      apps
        .find({
          _id: { $gt: after },
          ...(account !== undefined && {
            account: typeof account === 'string' ? account : { $in: [...account] },
          }),
        })
        .sort({ _id: 1 })
        .limit(limit)
        .toArray(),
    /**
     * Finds apps whose name contains a text, in order of id: those of some accounts, or of all. Reads every app: their
     * documents are few and small.
     */
    search: (text: string, accounts: readonly string[] | 'all', limit: number) =>
      apps
        .find({
          name: { $regex: text.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&'), $options: 'i' },
          ...(accounts !== 'all' && { account: { $in: [...accounts] } }),
        })
        .sort({ _id: 1 })
        .limit(limit)
        .toArray(),
    /** Lists the ids of the apps of some accounts, or of all. */
    listIds: async (accounts: readonly string[] | 'all', limit: number): Promise<string[]> => {
      const filter = accounts === 'all' ? {} : { account: { $in: [...accounts] } };
      const found = await apps
        .find(filter, { projection: { _id: 1 } })
        .limit(limit)
        .toArray();
      return found.map(({ _id }) => _id);
    },
    /** Finds the app that has an iOS bundle id or a site's host name. */
    findByBundleIdOrHost: async (name: string) =>
      (await apps.findOne({ $or: [{ bundleIds: name }, { webHosts: name }] })) ?? undefined,
    /** Finds the names and accounts of some apps; apps that don't exist are left out. */
    findOwners: (ids: readonly string[]): Promise<AppOwner[]> =>
      apps
        .find<AppOwner>(
          { _id: { $in: [...ids] } },
          { projection: { name: 1, account: 1 }, batchSize: ids.length + 1 },
        )
        .toArray(),
    /** Pauses an app: its deliveries wait. The time of an earlier pause stays. Undefined if the app doesn't exist. */
    pause: async (id: string): Promise<AppDocument | undefined> =>
      (await apps.findOneAndUpdate(
        { _id: id },
        [{ $set: { pausedAt: { $ifNull: ['$pausedAt', '$$NOW'] } } }],
        { returnDocument: 'after' },
      )) ?? undefined,
    /** Ends the pause of an app. Undefined if the app doesn't exist. */
    resume: async (id: string): Promise<AppDocument | undefined> =>
      (await apps.findOneAndUpdate(
        { _id: id },
        // Providers accepted nothing meanwhile.
        { $unset: { pausedAt: true, acceptancesSince: true } },
        { returnDocument: 'after' },
      )) ?? undefined,
    ...createPruning(apps),
    /** Records that an iOS device of an app has connected over MQTT; written once. */
    async markIosOverMqtt(id: string): Promise<void> {
      await apps.updateOne(
        { _id: id, iosOverMqtt: { $exists: false } },
        { $set: { iosOverMqtt: true } },
      );
    },
    /**
     * Changes settings; an empty list removes the names. Undefined if the app doesn't exist, `taken` if another app has
     * one of the bundle ids or host names.
     */
    async updateSettings(
      id: string,
      settings: AppSettings,
    ): Promise<AppDocument | 'taken' | undefined> {
      try {
        const updated = await apps.findOneAndUpdate({ _id: id }, buildSettingsUpdate(settings), {
          returnDocument: 'after',
        });
        return updated ?? undefined;
      } catch (error) {
        if (isDuplicateKey(error)) return 'taken';
        throw error;
      }
    },
  };
}

/**
 * Starts the time anew since when what an app's providers accept is recorded: for a while they may have accepted nothing. Call it
 * before the write that ends that while, so that a process that dies in between has done so. The scheduler records the new time.
 */
export async function forgetAcceptances(apps: Collection<AppDocument>, id: string): Promise<void> {
  await apps.updateOne({ _id: id }, { $unset: { acceptancesSince: true } });
}

/** Reads and marks the apps that prune devices. */
function createPruning(apps: Collection<AppDocument>) {
  return {
    /** Lists apps that prune devices after the id `after`, in order of id. */
    listPruning: async (after: string, limit: number): Promise<PruningApp[]> => {
      const found = await apps
        .find<PruningApp>(
          { pruneAfterDays: { $exists: true }, _id: { $gt: after } },
          { projection: { pruneAfterDays: 1, acceptancesSince: 1 }, batchSize: limit + 1 },
        )
        .sort({ _id: 1 })
        .limit(limit)
        .toArray();
      return found;
    },
    /** Records that from now on what providers accept is recorded with the devices of an app; an earlier time stays. */
    async markAcceptancesRecorded(id: string): Promise<void> {
      await apps.updateOne(
        { _id: id, pruneAfterDays: { $exists: true }, acceptancesSince: { $exists: false } },
        { $currentDate: { acceptancesSince: true } },
      );
    },
  };
}

/**
 * Unsets empty lists: a unique index treats them as one value, so only one app could have one. An app that stops pruning leaves
 * the index of those that do.
 */
function buildSettingsUpdate(settings: AppSettings): UpdateFilter<AppDocument> {
  const isEmpty = ([name, value]: [string, unknown]) =>
    (Array.isArray(value) && value.length === 0) || (name === 'pruneAfterDays' && value === null);
  const entries = Object.entries(settings);
  const valuesToSet = entries.filter((entry) => !isEmpty(entry));
  const emptyNames = entries.filter(isEmpty).map(([name]) => name);
  const namesToUnset = emptyNames.includes('pruneAfterDays')
    ? [...emptyNames, 'acceptancesSince']
    : emptyNames;
  const valuesToUnset = namesToUnset.map((name) => [name, true]);
  return {
    ...(valuesToSet.length > 0 && { $set: Object.fromEntries(valuesToSet) }),
    ...(valuesToUnset.length > 0 && { $unset: Object.fromEntries(valuesToUnset) }),
  };
}
