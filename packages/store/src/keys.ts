import { newObjectId } from '@carillon/core/ids';
import type { Db } from 'mongodb';
import type { Clock } from './clock.ts';
import type { AccountDocument, AppDocument, KeyDocument } from './documents.ts';

/** What a valid key opens. */
export interface KeyOwner {
  keyId: string;
  app: AppDocument;
  account: AccountDocument;
}

/** Secret API Keys, known only by their digest. */
export function createKeys(db: Db, clock: Clock) {
  const keys = db.collection<KeyDocument>('keys');
  return {
    /** Keeps a new key's digest and returns the key's id. */
    async create(app: string, digest: string, lastFour: string): Promise<string> {
      const _id = newObjectId();
      await keys.insertOne({ _id, app, digest, lastFour, createdAt: new Date(clock.now()) });
      return _id;
    },
    /** The app and account of a key that isn't revoked, in one round trip. */
    async owner(digest: string): Promise<KeyOwner | undefined> {
      const [found] = await keys
        .aggregate<{ _id: string; apps: AppDocument[]; accounts: AccountDocument[] }>([
          { $match: { digest, revokedAt: { $exists: false } } },
          { $lookup: { from: 'apps', localField: 'app', foreignField: '_id', as: 'apps' } },
          {
            $lookup: {
              from: 'accounts',
              localField: 'apps.account',
              foreignField: '_id',
              as: 'accounts',
            },
          },
        ])
        .toArray();
      const app = found?.apps[0];
      const account = found?.accounts[0];
      return found && app && account ? { keyId: found._id, app, account } : undefined;
    },
    /** An app's keys, oldest first, without their digests. */
    list: (app: string) =>
      keys
        .find({ app }, { projection: { digest: 0 } })
        .sort({ createdAt: 1, _id: 1 })
        .toArray() as Promise<Omit<KeyDocument, 'digest'>[]>,
    /** Revokes a key; false if there is no such one, or it is revoked already. */
    async revoke(id: string): Promise<boolean> {
      const { modifiedCount } = await keys.updateOne(
        { _id: id, revokedAt: { $exists: false } },
        { $currentDate: { revokedAt: true } },
      );
      return modifiedCount === 1;
    },
  };
}
