import type { Channel } from '@carillon/core/channels';
import type { AppleEnvironment } from '@carillon/core/channels/apns';
import { newClaimId } from '@carillon/core/ids';
import type { Sealed } from '@carillon/core/sealing';
import type { Collection, Db } from 'mongodb';
import { forgetAcceptances } from './apps.ts';
import type { Clock } from './clock.ts';
import type { AppDocument, CredentialDocument } from './documents.ts';
import type { Suspensions } from './suspensions.ts';

/** Age of the end of a refusal's round from which nothing waits: a credential with pushes is tried every minute. */
const TRIED_MS = 3_600_000;
/** Duration of a refusal from which it is a gap in what the provider accepts: pushes wait out a shorter one. */
const GAP_MS = 3_600_000;

/** Identifies a credential: one per app and channel, or for APNs one per environment if they differ. */
export interface CredentialKey {
  app: string;
  channel: Channel;
  environment?: AppleEnvironment;
}

/** A credential that its provider has rejected and not accepted since, with the names of its owner. */
export interface RefusalView {
  app: string;
  appName: string;
  account: string;
  channel: Channel;
  environment?: AppleEnvironment;
  detail: string;
  /** The first rejection that no acceptance followed. */
  refusedAt: Date;
}

/** Returns the id of a credential; the sealed secret is bound to it. */
export function credentialId({ app, channel, environment }: CredentialKey): string {
  return environment === undefined ? `${app}:${channel}` : `${app}:${channel}:${environment}`;
}

/** Builds a credential with a new revision. */
function buildCredential(
  key: CredentialKey,
  secret: Sealed,
  about: CredentialDocument['about'],
  changedAt: Date,
): CredentialDocument {
  return {
    _id: credentialId(key),
    ...key,
    secret,
    about,
    revision: newClaimId(),
    changedAt,
  };
}

/** Credentials of apps at providers. */
export function createCredentials(db: Db, clock: Clock) {
  const credentials: Credentials = db.collection('credentials');
  const apps: Apps = db.collection('apps');
  return {
    ...createCredentialReads(credentials),
    ...createCredentialWrites(credentials, apps, clock),
    ...createRefusals(credentials, apps, clock),
  };
}

type Credentials = Collection<CredentialDocument>;
type Apps = Collection<AppDocument>;

function createCredentialReads(credentials: Credentials) {
  return {
    /** Returns whether an app has a credential for a channel. */
    has: async (app: string, channel: Channel): Promise<boolean> =>
      (await credentials.findOne(channelFilter(app, channel), { projection: { _id: 1 } })) !== null,

    /** Lists an app's credentials for a channel: none, one, or one per environment. */
    listForChannel: (app: string, channel: Channel) =>
      credentials.find(channelFilter(app, channel)).toArray(),

    /** Finds a credential. */
    find: async (key: CredentialKey): Promise<CredentialDocument | undefined> =>
      (await credentials.findOne({ _id: credentialId(key) })) ?? undefined,

    /** Returns the public key of an app for Web Push (RFC 8292), base64url. */
    async webPushPublicKey(app: string): Promise<string | undefined> {
      const found = await credentials.findOne(
        { _id: credentialId({ app, channel: 'web-push' }) },
        { projection: { about: 1 } },
      );
      return found?.about.publicKey;
    },

    /** Lists an app's credentials in order of id. */
    list: (app: string) => credentials.find({ app }).sort({ _id: 1 }).toArray(),

    /** Reads what may be shown of the credentials of all apps for a channel, one at a time, in order of app. */
    iterateOf: (
      channel: Channel,
    ): AsyncIterable<Pick<CredentialDocument, '_id' | 'app' | 'about'>> =>
      credentials.find({ channel }, { projection: { app: 1, about: 1 } }).sort({ app: 1 }),

    /** Reads all credentials of all apps, one at a time. */
    iterateAll: (): AsyncIterable<CredentialDocument> => credentials.find(),
  };
}

function channelFilter(app: string, channel: Channel) {
  const ids = [undefined, 'development' as const, 'production' as const].map((environment) =>
    credentialId({ app, channel, ...(environment && { environment }) }),
  );
  return { _id: { $in: ids } };
}

function createCredentialWrites(credentials: Credentials, apps: Apps, clock: Clock) {
  return {
    /** Saves a credential, replacing the previous one; workers use it within seconds. */
    async put(
      key: CredentialKey,
      secret: Sealed,
      about: Record<string, string>,
    ): Promise<CredentialDocument> {
      const document = buildCredential(key, secret, about, new Date(clock.now()));
      await forgetAcceptances(apps, key.app);
      await credentials.replaceOne({ _id: document._id }, document, { upsert: true });
      return document;
    },

    /**
     * Replaces one revision of a credential.
     *
     * @returns undefined if that revision was changed or removed meanwhile; then nothing is changed
     */
    async replace(
      { _id, revision, app, channel, environment }: CredentialDocument,
      secret: Sealed,
      about: Record<string, string>,
    ): Promise<CredentialDocument | undefined> {
      const key = { app, channel, ...(environment !== undefined && { environment }) };
      const document = buildCredential(key, secret, about, new Date(clock.now()));
      await forgetAcceptances(apps, app);
      const { matchedCount } = await credentials.replaceOne({ _id, revision }, document);
      return matchedCount === 1 ? document : undefined;
    },

    /**
     * Saves the same secret sealed again, for instance under a new key. The revision stays, because the secret does.
     *
     * @returns false if the credential was changed or removed meanwhile; then nothing is changed
     */
    reseal: async (
      { _id, revision }: Pick<CredentialDocument, '_id' | 'revision'>,
      secret: Sealed,
    ): Promise<boolean> =>
      (await credentials.updateOne({ _id, revision }, { $set: { secret } })).matchedCount === 1,

    /** Removes a credential; false if it doesn't exist. */
    async remove(key: CredentialKey): Promise<boolean> {
      await forgetAcceptances(apps, key.app);
      return (await credentials.deleteOne({ _id: credentialId(key) })).deletedCount === 1;
    },
  };
}

/** Rejections of credentials by their providers. */
function createRefusals(credentials: Credentials, apps: Apps, clock: Clock) {
  return {
    /**
     * Lists credentials that their provider has rejected in the last hour and not accepted since, the last rejected
     * first. One that is not tried any more, because no push waits for it, is left out.
     *
     * @param filter apps that are left out, whose pushes are not delivered
     */
    listUnaccepted: (
      limit: number,
      filter: ReturnType<Suspensions['filter']>,
    ): Promise<RefusalView[]> => {
      const triedAt = new Date(clock.now() - TRIED_MS);
      return credentials
        .aggregate<RefusalView>(buildUnacceptedQuery(limit, triedAt, filter))
        .toArray();
    },

    /** Records that the provider rejects this revision of a credential, for operators and other workers. */
    async recordRefusal(
      id: string,
      revision: string,
      detail: string,
      retryAfterMs: number,
    ): Promise<void> {
      const at = new Date(clock.now());
      const until = new Date(at.getTime() + retryAfterMs);
      const since = { $ifNull: ['$refused.since', '$refused.at', at] };
      await credentials.updateOne({ _id: id, revision }, [
        { $set: { refused: { detail: { $literal: detail }, at, until, since } } },
      ]);
    },

    /**
     * Records that the provider accepts this revision again.
     *
     * @returns false if it has been rejected since, by what another worker got: then the mark stays
     */
    async clearRefusal(id: string, revision: string): Promise<boolean> {
      const nowMs = clock.now();
      const isLong = { $exists: true, $not: { $gt: new Date(nowMs - GAP_MS) } };
      const long = await credentials.findOne(
        { _id: id, revision, 'refused.since': isLong },
        { projection: { app: 1 } },
      );
      if (long !== null) await forgetAcceptances(apps, long.app);
      const { matchedCount } = await credentials.updateOne(
        { _id: id, revision, 'refused.until': { $not: { $gt: new Date(nowMs) } } },
        { $unset: { refused: true } },
      );
      return matchedCount === 1;
    },
  };
}

function buildUnacceptedQuery(
  limit: number,
  triedAt: Date,
  filter: ReturnType<Suspensions['filter']>,
) {
  return [
    { $match: { ...filter, 'refused.until': { $gt: triedAt } } },
    { $sort: { 'refused.until': -1 } },
    { $limit: limit },
    { $lookup: { from: 'apps', localField: 'app', foreignField: '_id', as: 'owner' } },
    { $unwind: '$owner' },
    {
      $project: {
        _id: 0,
        app: 1,
        appName: '$owner.name',
        account: '$owner.account',
        channel: 1,
        environment: 1,
        detail: '$refused.detail',
        refusedAt: { $ifNull: ['$refused.since', '$refused.at'] },
      },
    },
  ];
}
