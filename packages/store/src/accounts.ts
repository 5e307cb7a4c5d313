import { newObjectId } from '@carillon/core/ids';
import type { Db } from 'mongodb';
import type { Clock } from './clock.ts';
import type { AccountDocument } from './documents.ts';

/** Accounts: plan, limit, suspension. */
export function createAccounts(db: Db, clock: Clock) {
  const accounts = db.collection<AccountDocument>('accounts');

  async function change(id: string, update: Parameters<typeof accounts.findOneAndUpdate>[1]) {
    return (
      (await accounts.findOneAndUpdate({ _id: id }, update, { returnDocument: 'after' })) ??
      undefined
    );
  }

  return {
    /** Makes an account and returns its id. */
    async create(name: string, plan: AccountDocument['plan']): Promise<string> {
      const _id = newObjectId();
      await accounts.insertOne({ _id, name, plan, createdAt: new Date(clock.now()) });
      return _id;
    },
    find: async (id: string) => (await accounts.findOne({ _id: id })) ?? undefined,
    /** Sets the requests per minute; null is unlimited. Undefined if there is no such account. */
    limit: (id: string, limit: number | null) => change(id, { $set: { limit } }),
    suspend: (id: string) => change(id, { $currentDate: { suspendedAt: true } }),
    resume: (id: string) => change(id, { $unset: { suspendedAt: true } }),
  };
}
