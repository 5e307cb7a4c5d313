import { newObjectId } from '@carillon/core/ids';
import type { Db } from 'mongodb';
import type { Clock } from './clock.ts';
import type { AccountDocument, AppDocument, CredentialDocument, KeyDocument } from './documents.ts';

/** The app and account of a valid key. */
export interface KeyOwner {
  keyId: string;
  app: AppDocument;
  account: AccountDocument;
  /** Contact of the app's key pair for Web Push; empty if the pair has none, undefined without a pair. */
  webPushContact?: string | undefined;
  /** The app has a credential for FCM. */
  hasFcm: boolean;
}

/** A use of an API key: its id, milliseconds since 1970. */
export interface KeyUse {
  id: string;
  at: number;
}

/** Minimum time between two recorded uses of a key. */
export const USE_PRECISION_MS = 60_000;

interface FoundKey {
  _id: string;
  digest: string;
  apps: AppDocument[];
  accounts: AccountDocument[];
  credentials: Pick<CredentialDocument, 'channel' | 'about'>[];
}

/** Stages that add the app of a key, its account, and what a push needs to know of its credentials. */
const OWNER_LOOKUPS = [
  { $lookup: { from: 'apps', localField: 'app', foreignField: '_id', as: 'apps' } },
  {
    $lookup: {
      from: 'accounts',
      localField: 'apps.account',
      foreignField: '_id',
      as: 'accounts',
    },
  },
  {
    $lookup: {
      from: 'credentials',
      localField: 'app',
      foreignField: 'app',
      pipeline: [
        { $match: { channel: { $in: ['web-push', 'fcm'] } } },
        { $project: { channel: 1, 'about.contact': 1 } },
      ],
      as: 'credentials',
    },
  },
];

/** Secret API keys, stored only as digests. */
export function createKeys(db: Db, clock: Clock) {
  const keys = db.collection<KeyDocument>('keys');

  async function findOwners(digests: string[]): Promise<Map<string, KeyOwner>> {
    const [singleDigest] = digests;
    const found = await keys
      .aggregate<FoundKey>(
        [
          {
            $match: {
              digest:
                digests.length === 1 && singleDigest !== undefined
                  ? singleDigest
                  : { $in: digests },
              revokedAt: { $exists: false },
            },
          },
          ...OWNER_LOOKUPS,
        ],
        { batchSize: digests.length + 1 },
      )
      .toArray();
    const owners = new Map<string, KeyOwner>();
    for (const { _id: keyId, digest, apps, accounts, credentials } of found) {
      const [app] = apps;
      const [account] = accounts;
      const pair = credentials.find(({ channel }) => channel === 'web-push');
      const webPushContact = pair && (pair.about.contact ?? '');
      const hasFcm = credentials.some(({ channel }) => channel === 'fcm');
      if (app !== undefined && account !== undefined)
        owners.set(digest, { keyId, app, account, webPushContact, hasFcm });
    }
    return owners;
  }

  return {
    /** Stores a new key's digest and returns the key's id. */
    async create(app: string, digest: string, lastFour: string): Promise<string> {
      const _id = newObjectId();
      await keys.insertOne({ _id, app, digest, lastFour, createdAt: new Date(clock.now()) });
      return _id;
    },
    /** Finds the owner of a key that isn't revoked, in one round trip. */
    owner: async (digest: string): Promise<KeyOwner | undefined> =>
      (await findOwners([digest])).get(digest),
    /** Finds the owners of many keys by their digests; unknown and revoked keys are left out. */
    owners: findOwners,
    /** Lists an app's keys, oldest first, without their digests. */
    list: (app: string) =>
      keys
        .find({ app }, { projection: { digest: 0 } })
        .sort({ createdAt: 1, _id: 1 })
        .toArray() as Promise<Omit<KeyDocument, 'digest'>[]>,
    /**
     * Records when keys were used. A time within a minute after the recorded one changes nothing, whichever process
     * reports it. Keys of the same second share an update.
     */
    async markUsed(uses: readonly KeyUse[]): Promise<void> {
      const idsAt = Map.groupBy(uses, ({ at }) => Math.floor(at / 1_000) * 1_000);
      if (idsAt.size === 0) return;
      await keys.bulkWrite(
        [...idsAt].map(([second, used]) => ({
          updateMany: {
            filter: {
              _id: { $in: used.map(({ id }) => id) },
              lastUsedAt: { $not: { $gt: new Date(second - USE_PRECISION_MS) } },
            },
            update: { $max: { lastUsedAt: new Date(second) } },
          },
        })),
        { ordered: false },
      );
    },
    /** Revokes a key; false if it doesn't exist, is another app's, or is revoked already. */
    async revoke(id: string, app?: string): Promise<boolean> {
      const { modifiedCount } = await keys.updateOne(
        { _id: id, ...(app !== undefined && { app }), revokedAt: { $exists: false } },
        { $currentDate: { revokedAt: true } },
      );
      return modifiedCount === 1;
    },
  };
}
