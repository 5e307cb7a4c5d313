import { newObjectId } from '@carillon/core/ids';
import { Binary, type Db } from 'mongodb';
import { fromNow } from './clock.ts';
import type { OperatorDocument, OperatorTokenDocument } from './console-documents.ts';
import { MANAGES_OPERATORS } from './operators.ts';
import { toLiterals } from './to-literals.ts';

/** Minimum time between two recorded uses of a token. */
const USE_PRECISION_MS = 60_000;

/** What a token is for, and who has made it. */
export type TokenGrant = Pick<OperatorTokenDocument, 'name' | 'role' | 'accounts' | 'by'>;

/** A token that works, with the operator who has made it. */
export interface ValidToken extends OperatorTokenDocument {
  maker?: OperatorDocument;
  /** True when `touch` is due: the last use is recorded once a minute. */
  isStale: boolean;
}

const HAS_NOT_EXPIRED = { $expr: { $gt: ['$expiresAt', '$$NOW'] } } as const;

/** Expression: no use has been recorded within the last minute. */
const IS_STALE = {
  $lt: [{ $ifNull: ['$lastUsedAt', new Date(0)] }, fromNow(-USE_PRECISION_MS)],
};

/** Stages that join a token with its maker. They leave out a token whose maker may no longer make one. */
const WITH_MAKER = [
  { $lookup: { from: 'operators', localField: 'by', foreignField: '_id', as: 'maker' } },
  { $match: { $or: [{ by: { $exists: false } }, { maker: { $elemMatch: MANAGES_OPERATORS } }] } },
  { $set: { maker: { $first: '$maker' }, isStale: IS_STALE } },
];

/** Tokens with which programs use the console's routes. All times are MongoDB's. */
export function createOperatorTokens(db: Db) {
  const tokens = db.collection<OperatorTokenDocument>('operatorTokens');
  return {
    /** Stores a token and returns its id. @param digest SHA-256 of its text @param lifetimeMs time until it expires */
    async create(digest: Buffer, grant: TokenGrant, lifetimeMs: number): Promise<string> {
      const _id = newObjectId();
      const fields = toLiterals({ digest: new Binary(digest), ...grant });
      const times = { createdAt: '$$NOW', expiresAt: fromNow(lifetimeMs) };
      await tokens.updateOne({ _id }, [{ $set: { ...fields, ...times } }], { upsert: true });
      return _id;
    },
    /** Finds a token that works, in one round trip: neither it nor its maker's access has ended. */
    async find(digest: Buffer): Promise<ValidToken | undefined> {
      const [found] = await tokens
        .aggregate<ValidToken>([
          { $match: { digest: new Binary(digest), ...HAS_NOT_EXPIRED } },
          ...WITH_MAKER,
        ])
        .toArray();
      return found;
    },
    /** Lists the tokens that work, after the id `after`, in order of id. */
    list: (after: string, limit: number): Promise<ValidToken[]> =>
      tokens
        .aggregate<ValidToken>([
          { $match: { _id: { $gt: after }, ...HAS_NOT_EXPIRED } },
          { $sort: { _id: 1 } },
          ...WITH_MAKER,
          { $limit: limit },
        ])
        .toArray(),
    /** Records a use, at most once a minute however many requests use the token at once. */
    async touch(id: string): Promise<void> {
      await tokens.updateOne({ _id: id, $expr: IS_STALE }, { $currentDate: { lastUsedAt: true } });
    },
    /** Revokes a token; false if there is none. */
    revoke: async (id: string): Promise<boolean> =>
      (await tokens.deleteOne({ _id: id })).deletedCount === 1,
    /** Revokes the tokens that an operator has made. */
    async endMadeBy(operator: string): Promise<void> {
      await tokens.deleteMany({ by: operator });
    },
  };
}
