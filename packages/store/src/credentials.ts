import type { Channel } from '@carillon/core/platforms';
import type { Db } from 'mongodb';
import type { CredentialDocument } from './documents.ts';

/** What apps need to send through providers. */
export function createCredentials(db: Db) {
  const credentials = db.collection<CredentialDocument>('credentials');
  return {
    /** Whether an app can send through a channel. */
    has: async (app: string, channel: Channel): Promise<boolean> =>
      (await credentials.findOne({ app, channel }, { projection: { _id: 1 } })) !== null,
  };
}
