import { Binary, type Db } from 'mongodb';
import { fromNow } from './clock.ts';
import type { OperatorDocument, SessionDocument } from './console-documents.ts';

/** Time without a use after which a session ends; also the TTL of its index. */
export const SESSION_IDLE_MS = 12 * 3_600_000;
/** Maximum lifetime of a session. */
export const SESSION_MAX_AGE_MS = 7 * 24 * 3_600_000;
/** Minimum time between two recorded uses of a session. */
const SEEN_INTERVAL_MS = 60_000;

/** A session that is valid now. */
export interface ValidSession {
  operator: OperatorDocument;
  /** True when `touch` is due: the last use is recorded once a minute. */
  isStale: boolean;
}

interface FoundSession {
  operators: OperatorDocument[];
  isStale: boolean;
}

/** Sessions of operators. All times are MongoDB's. */
export function createSessions(db: Db) {
  const sessions = db.collection<SessionDocument>('sessions');
  return {
    /** Begins a session. @param digest SHA-256 of its token */
    async create(digest: Buffer, operator: string): Promise<void> {
      await sessions.updateOne(
        { _id: new Binary(digest) },
        [
          {
            $set: {
              operator: { $literal: operator },
              createdAt: '$$NOW',
              seenAt: '$$NOW',
              expiresAt: fromNow(SESSION_MAX_AGE_MS),
            },
          },
        ],
        { upsert: true },
      );
    },
    /** Finds a session that has not ended, with its operator unless disabled: one round trip. */
    async find(digest: Buffer): Promise<ValidSession | undefined> {
      const [found] = await sessions
        .aggregate<FoundSession>([
          {
            $match: {
              _id: new Binary(digest),
              $expr: {
                $and: [
                  { $gt: ['$expiresAt', '$$NOW'] },
                  { $gt: ['$seenAt', fromNow(-SESSION_IDLE_MS)] },
                ],
              },
            },
          },
          {
            $lookup: {
              from: 'operators',
              localField: 'operator',
              foreignField: '_id',
              as: 'operators',
            },
          },
          {
            $project: {
              operators: 1,
              isStale: { $lt: ['$seenAt', fromNow(-SEEN_INTERVAL_MS)] },
            },
          },
        ])
        .toArray();
      const operator = found?.operators[0];
      if (found === undefined || operator === undefined) return undefined;
      if (operator.disabledAt !== undefined) return undefined;
      return { operator, isStale: found.isStale };
    },
    /** Records a use. */
    async touch(digest: Buffer): Promise<void> {
      await sessions.updateOne({ _id: new Binary(digest) }, { $currentDate: { seenAt: true } });
    },
    /** Ends one session. */
    async end(digest: Buffer): Promise<void> {
      await sessions.deleteOne({ _id: new Binary(digest) });
    },
    /** Ends the sessions of an operator. @param keep digest of a session that stays valid */
    async endAll(operator: string, keep?: Buffer): Promise<void> {
      await sessions.deleteMany({
        operator,
        ...(keep !== undefined && { _id: { $ne: new Binary(keep) } }),
      });
    },
  };
}
