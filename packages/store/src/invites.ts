import { newObjectId } from '@carillon/core/ids';
import { Binary, type Db } from 'mongodb';
import { fromNow } from './clock.ts';
import type { InviteDocument, OperatorDocument } from './console-documents.ts';
import { MANAGES_OPERATORS } from './operators.ts';
import { toLiterals } from './to-literals.ts';

/** Lifetime of a link. */
const INVITE_MS = 3_600_000;

/** Access that a one-time link grants. */
export type InviteGrant = Pick<InviteDocument, 'kind' | 'role' | 'accounts' | 'operator' | 'by'>;

/** A link that works, with the operator who has made it and the one whose password it sets. */
export interface OpenLink extends InviteDocument {
  maker?: OperatorDocument;
  target?: OperatorDocument;
}

const IS_USABLE = {
  redeemedAt: { $exists: false },
  $expr: { $gt: ['$expiresAt', '$$NOW'] },
} as const;

/** Stages that join a link with its operators. They leave out a link whose maker or operator has lost access. */
const WITH_OPERATORS = [
  { $lookup: { from: 'operators', localField: 'by', foreignField: '_id', as: 'maker' } },
  { $lookup: { from: 'operators', localField: 'operator', foreignField: '_id', as: 'target' } },
  {
    $match: {
      $and: [
        { $or: [{ by: { $exists: false } }, { maker: { $elemMatch: MANAGES_OPERATORS } }] },
        {
          $or: [
            { operator: { $exists: false } },
            { target: { $elemMatch: { disabledAt: { $exists: false } } } },
          ],
        },
      ],
    },
  },
  { $set: { maker: { $first: '$maker' }, target: { $first: '$target' } } },
];

/** Links that create an operator or set a password, once. */
export function createInvites(db: Db) {
  const invites = db.collection<InviteDocument>('invites');
  return {
    /** Stores a link for an hour and returns its id. @param digest SHA-256 of its token */
    async create(digest: Buffer, grant: InviteGrant): Promise<string> {
      const id = newObjectId();
      await invites.updateOne(
        { _id: new Binary(digest) },
        [{ $set: { ...toLiterals({ id, ...grant }), expiresAt: fromNow(INVITE_MS) } }],
        { upsert: true },
      );
      return id;
    },
    /** Finds a link that works, in one round trip: neither it nor its maker's access has ended. */
    async find(digest: Buffer): Promise<OpenLink | undefined> {
      const [found] = await invites
        .aggregate<OpenLink>([
          { $match: { _id: new Binary(digest), ...IS_USABLE } },
          ...WITH_OPERATORS,
        ])
        .toArray();
      return found;
    },
    /** Lists the invites and password links that work, after the id `after`, in order of id. */
    list: (after: string, limit: number): Promise<OpenLink[]> =>
      invites
        .aggregate<OpenLink>([
          { $match: { id: { $gt: after }, kind: { $in: ['invite', 'reset'] }, ...IS_USABLE } },
          { $sort: { id: 1 } },
          ...WITH_OPERATORS,
          { $limit: limit },
        ])
        .toArray(),
    /** Marks a link as used, in one statement: of several calls at once, and a revocation, one gets it. */
    redeem: async (digest: Buffer): Promise<InviteDocument | undefined> =>
      (await invites.findOneAndUpdate({ _id: new Binary(digest), ...IS_USABLE }, [
        { $set: { redeemedAt: '$$NOW' } },
      ])) ?? undefined,
    /** Makes a redeemed link usable again, because its action has failed. A revoked one stays revoked. */
    async release(digest: Buffer): Promise<void> {
      await invites.updateOne({ _id: new Binary(digest) }, { $unset: { redeemedAt: true } });
    },
    /**
     * Revokes a link; false if there is none or it has been used. A used one is removed as well, so that it can't be
     * released.
     */
    async revoke(id: string): Promise<boolean> {
      const removed = await invites.findOneAndDelete({ id });
      return removed !== null && removed.redeemedAt === undefined;
    },
    /** Removes the links that an operator has made. */
    async endMadeBy(operator: string): Promise<void> {
      await invites.deleteMany({ by: operator });
    },
    /** Removes the links that an operator has made and those that set its password. */
    async endAll(operator: string): Promise<void> {
      await invites.deleteMany({ $or: [{ by: operator }, { operator }] });
    },
    /** Removes the links that create the first operator. */
    async removeSetUps(): Promise<void> {
      await invites.deleteMany({ kind: 'setup' });
    },
  };
}
