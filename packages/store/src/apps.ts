import { newObjectId } from '@carillon/core/ids';
import type { Db } from 'mongodb';
import type { Clock } from './clock.ts';
import type { AppDocument } from './documents.ts';

/** Settings of an app that an operator may change. */
export type AppSettings = Pick<AppDocument, 'payloadLimit'>;

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
    /** Changes settings; undefined if there is no such app. */
    change: async (id: string, settings: AppSettings) =>
      (await apps.findOneAndUpdate({ _id: id }, { $set: settings }, { returnDocument: 'after' })) ??
      undefined,
  };
}
