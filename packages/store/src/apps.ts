import { newObjectId } from '@carillon/core/ids';
import type { Db } from 'mongodb';
import type { Clock } from './clock.ts';
import type { AppDocument } from './documents.ts';
import { isDuplicateKey } from './failures.ts';

/** Settings of an app that an operator may change. */
export type AppSettings = Pick<
  AppDocument,
  | 'payloadLimit'
  | 'dataString'
  | 'registrationClosed'
  | 'registrationsPerHour'
  | 'fcmFallbackSeconds'
  | 'bundleIds'
  | 'webHosts'
>;

/** Apps: the tenants. */
export function createApps(db: Db, clock: Clock) {
  const apps = db.collection<AppDocument>('apps');
  return {
    /** Makes an app of an account and returns its id. */
    async create(name: string, account: string): Promise<string> {
      const _id = newObjectId();
      await apps.insertOne({ _id, account, name, createdAt: new Date(clock.now()) });
      return _id;
    },
    find: async (id: string) => (await apps.findOne({ _id: id })) ?? undefined,
    /** The app that an iOS app's bundle id or a site's host name belongs to. */
    findNamed: async (name: string) =>
      (await apps.findOne({ $or: [{ bundleIds: name }, { webHosts: name }] })) ?? undefined,
    /**
     * Changes settings; undefined if there is no such app.
     *
     * @throws when a bundle id or host name is another app's
     */
    async change(id: string, settings: AppSettings): Promise<AppDocument | undefined> {
      try {
        const update = { $set: settings };
        const changed = await apps.findOneAndUpdate({ _id: id }, update, {
          returnDocument: 'after',
        });
        return changed ?? undefined;
      } catch (error) {
        if (!isDuplicateKey(error)) throw error;
        throw new Error('another app has this bundle id or host name already');
      }
    },
  };
}
