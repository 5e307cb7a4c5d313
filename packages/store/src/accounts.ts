import { newObjectId } from '@carillon/core/ids';
import type { Db } from 'mongodb';
import type { Clock } from './clock.ts';
import type { AccountDocument } from './documents.ts';

/** Accounts: plan, limit, suspension. */
export function createAccounts(db: Db, clock: Clock) {
  const accounts = db.collection<AccountDocument>('accounts');

  async function findAndUpdate(
    id: string,
    update: Parameters<typeof accounts.findOneAndUpdate>[1],
  ) {
    return (
      (await accounts.findOneAndUpdate({ _id: id }, update, { returnDocument: 'after' })) ??
      undefined
    );
  }

  return {
    /** Creates an account and returns its id. */
    async create(name: string, plan: AccountDocument['plan']): Promise<string> {
      const _id = newObjectId();
      await accounts.insertOne({ _id, name, plan, createdAt: new Date(clock.now()) });
      return _id;
    },
    find: async (id: string) => (await accounts.findOne({ _id: id })) ?? undefined,
    /** Lists accounts after the id `after`, in order of id: those with some ids, or all. */
    list: (after: string, limit: number, ids?: readonly string[]) =>
      accounts
        .find({ _id: { $gt: after, ...(ids !== undefined && { $in: [...ids] }) } })
        .sort({ _id: 1 })
        .limit(limit)
        .toArray(),
    /** Sets the name. Undefined if the account doesn't exist. */
    rename: (id: string, name: string) => findAndUpdate(id, { $set: { name } }),
    /** Sets the requests per minute; null is unlimited. Undefined if the account doesn't exist. */
    limit: (id: string, limit: number | null) => findAndUpdate(id, { $set: { limit } }),
    suspend: (id: string) => findAndUpdate(id, { $currentDate: { suspendedAt: true } }),
    /** Ends the suspension of an account, if there is one. Undefined if the account doesn't exist. */
    resume: (id: string) =>
      findAndUpdate(id, [
        {
          $set: {
            resumedAt: { $cond: [{ $ifNull: ['$suspendedAt', false] }, '$$NOW', '$resumedAt'] },
            suspendedAt: '$$REMOVE',
          },
        },
      ]),
  };
}
