import { Binary, type Db } from 'mongodb';
import { fromNow } from './clock.ts';
import type { InviteDocument } from './console-documents.ts';

/** Time for which a link works. */
const INVITE_MS = 3_600_000;

/** Access that a one-time link grants. */
export type InviteGrant = Pick<InviteDocument, 'kind' | 'role' | 'accounts' | 'operator'>;

const IS_USABLE = {
  redeemedAt: { $exists: false },
  $expr: { $gt: ['$expiresAt', '$$NOW'] },
} as const;

/** Links that create an operator or set a password, once. */
export function createInvites(db: Db) {
  const invites = db.collection<InviteDocument>('invites');
  return {
    /** Stores a link for an hour. @param digest SHA-256 of its token */
    async create(digest: Buffer, grant: InviteGrant): Promise<void> {
      await invites.updateOne(
        { _id: new Binary(digest) },
        [{ $set: { ...toLiterals(grant), expiresAt: fromNow(INVITE_MS) } }],
        { upsert: true },
      );
    },
    /** Finds a link that works. */
    find: async (digest: Buffer): Promise<InviteDocument | undefined> =>
      (await invites.findOne({ _id: new Binary(digest), ...IS_USABLE })) ?? undefined,
    /** Marks a link as used, in one statement: of several calls at once one gets it. */
    redeem: async (digest: Buffer): Promise<InviteDocument | undefined> =>
      (await invites.findOneAndUpdate({ _id: new Binary(digest), ...IS_USABLE }, [
        { $set: { redeemedAt: '$$NOW' } },
      ])) ?? undefined,
    /** Makes a redeemed link usable again, because its action has failed. */
    async release(digest: Buffer): Promise<void> {
      await invites.updateOne({ _id: new Binary(digest) }, { $unset: { redeemedAt: true } });
    },
    /** Removes the links that create the first operator. */
    async removeSetUps(): Promise<void> {
      await invites.deleteMany({ kind: 'setup' });
    },
  };
}

/** In a pipeline a text that begins with `$` would be an expression. */
function toLiterals(grant: InviteGrant): Record<string, { $literal: unknown }> {
  const given = Object.entries(grant).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given.map(([name, value]) => [name, { $literal: value }]));
}
