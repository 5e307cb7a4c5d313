import { newClaimId } from '@carillon/core/ids';
import type { Channel } from '@carillon/core/platforms';
import type { Sealed } from '@carillon/core/sealing';
import type { Db } from 'mongodb';
import type { Clock } from './clock.ts';
import type { AppleEnvironment, CredentialDocument } from './documents.ts';

/** Which of an app's credentials: one for a channel, and for APNs one for each environment if they differ. */
export interface CredentialPlace {
  app: string;
  channel: Channel;
  environment?: AppleEnvironment;
}

/** The id of a credential, to which its secret is bound when it is sealed. */
export function credentialId({ app, channel, environment }: CredentialPlace): string {
  return environment === undefined ? `${app}:${channel}` : `${app}:${channel}:${environment}`;
}

/** What apps need to send through providers. */
export function createCredentials(db: Db, clock: Clock) {
  const credentials = db.collection<CredentialDocument>('credentials');

  function ofChannel(app: string, channel: Channel) {
    const ids = [undefined, 'development' as const, 'production' as const].map((environment) =>
      credentialId({ app, channel, ...(environment && { environment }) }),
    );
    return { _id: { $in: ids } };
  }

  return {
    /** Whether an app can send through a channel. */
    has: async (app: string, channel: Channel): Promise<boolean> =>
      (await credentials.findOne(ofChannel(app, channel), { projection: { _id: 1 } })) !== null,

    /** An app's credentials for a channel: none, one, or one for each environment. */
    ofChannel: (app: string, channel: Channel) =>
      credentials.find(ofChannel(app, channel)).toArray(),

    /** The public half of an app's key pair for Web Push (RFC 8292), base64url. */
    async webPushPublicKey(app: string): Promise<string | undefined> {
      const found = await credentials.findOne(
        { _id: credentialId({ app, channel: 'web-push' }) },
        { projection: { about: 1 } },
      );
      return found?.about.publicKey;
    },

    /** All of an app's credentials, in order of their ids. */
    list: (app: string) => credentials.find({ app }).sort({ _id: 1 }).toArray(),

    /** Keeps a credential in place of the one before; workers take it up within seconds. */
    async put(
      place: CredentialPlace,
      secret: Sealed,
      about: Record<string, string>,
    ): Promise<CredentialDocument> {
      const document: CredentialDocument = {
        _id: credentialId(place),
        ...place,
        secret,
        about,
        revision: newClaimId(),
        changedAt: new Date(clock.now()),
      };
      await credentials.replaceOne({ _id: document._id }, document, { upsert: true });
      return document;
    },

    /** Removes a credential; false if there is none. */
    remove: async (place: CredentialPlace): Promise<boolean> =>
      (await credentials.deleteOne({ _id: credentialId(place) })).deletedCount === 1,

    /** Notes that the provider refuses this revision of a credential, for operators and other workers. */
    async noteRefusal(id: string, revision: string, detail: string, restMs: number): Promise<void> {
      const at = new Date(clock.now());
      const until = new Date(at.getTime() + restMs);
      await credentials.updateOne(
        { _id: id, revision },
        { $set: { refused: { detail, at, until } } },
      );
    },

    /** The provider takes this revision again. */
    async noteAccepted(id: string, revision: string): Promise<void> {
      await credentials.updateOne({ _id: id, revision }, { $unset: { refused: true } });
    },
  };
}
