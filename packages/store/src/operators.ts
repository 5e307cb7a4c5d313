import { newObjectId } from '@carillon/core/ids';
import type { Db, Filter, UpdateFilter } from 'mongodb';
import type { Clock } from './clock.ts';
import type { OperatorAccounts, OperatorDocument, OperatorRole } from './console-documents.ts';
import { isDuplicateKey } from './mongo-errors.ts';

/** Operator to be created. */
export interface NewOperator {
  name: string;
  role: OperatorRole;
  accounts: OperatorAccounts;
  passwordHash?: string;
  openId?: string;
  /** True for the operator of the set-up link. */
  first?: boolean;
}

/** Change of an operator; absent fields stay as they are. */
export interface OperatorChange {
  role?: OperatorRole;
  accounts?: OperatorAccounts;
  disabled?: boolean;
}

/** Returns the form of a name by which operators are found: names that look alike have the same form. */
export function toNameKey(name: string): string {
  return name.normalize('NFKC').trim().toLowerCase();
}

/** Filter of operators that may manage others: owners of the whole installation that are not disabled. */
export const MANAGES_OPERATORS = {
  role: 'owner',
  accounts: 'all',
  disabledAt: { $exists: false },
} as const;

/** Returns true for an operator that {@link MANAGES_OPERATORS} selects. */
export function managesOperators({ role, accounts, disabledAt }: OperatorDocument): boolean {
  return role === 'owner' && accounts === 'all' && disabledAt === undefined;
}

/** Operators of the console. */
export function createOperators(db: Db, clock: Clock) {
  const operators = db.collection<OperatorDocument>('operators');

  async function findAndUpdate(
    filter: Filter<OperatorDocument>,
    update: UpdateFilter<OperatorDocument>,
  ): Promise<OperatorDocument | undefined> {
    const updated = await operators.findOneAndUpdate(filter, update, { returnDocument: 'after' });
    return updated ?? undefined;
  }

  return {
    /** Creates an operator and returns its id; undefined if the name or identity exists, or a first operator. */
    async create({ first, ...operator }: NewOperator): Promise<string | undefined> {
      const _id = newObjectId();
      const createdAt = new Date(clock.now());
      const mark = first === true ? { first } : {};
      const nameKey = toNameKey(operator.name);
      try {
        await operators.insertOne({ _id, ...operator, nameKey, ...mark, createdAt });
        return _id;
      } catch (error) {
        if (isDuplicateKey(error)) return undefined;
        throw error;
      }
    },
    find: async (id: string) => (await operators.findOne({ _id: id })) ?? undefined,
    findByName: async (name: string) =>
      (await operators.findOne({ nameKey: toNameKey(name) })) ?? undefined,
    findByOpenId: async (openId: string) => (await operators.findOne({ openId })) ?? undefined,
    /** Returns true when an operator exists, disabled ones included. */
    exist: async (): Promise<boolean> =>
      (await operators.findOne({}, { projection: { _id: 1 } })) !== null,
    /** Lists operators after the id `after`, in order of id. */
    list: (after: string, limit: number) =>
      operators
        .find({ _id: { $gt: after } })
        .sort({ _id: 1 })
        .limit(limit)
        .toArray(),
    /** Changes an operator and returns it; undefined if it doesn't exist. */
    change(id: string, { role, accounts, disabled }: OperatorChange) {
      const values = {
        ...(role !== undefined && { role }),
        ...(accounts !== undefined && { accounts }),
      };
      return findAndUpdate(
        { _id: id },
        {
          ...(Object.keys(values).length > 0 && { $set: values }),
          ...(disabled === true && { $currentDate: { disabledAt: true } }),
          ...(disabled === false && { $unset: { disabledAt: true } }),
        },
      );
    },
    /**
     * Sets the hash of a new password: of several calls at once with the same hash before it, one does.
     *
     * @param before hash that the operator had when the right to set a new password was checked
     * @returns undefined if the operator doesn't exist, is disabled, or has another password now
     */
    setPassword: (id: string, before: string | undefined, passwordHash: string) =>
      findAndUpdate(
        {
          _id: id,
          passwordHash: before ?? { $exists: false },
          disabledAt: { $exists: false },
        },
        { $set: { passwordHash } },
      ),
    /**
     * Records a login.
     *
     * @param passwordHash hash that was checked; undefined for a login without a password
     * @returns false if the operator doesn't exist, is disabled, or has another password now
     */
    async noteLogin(id: string, passwordHash: string | undefined): Promise<boolean> {
      const { matchedCount } = await operators.updateOne(
        {
          _id: id,
          ...(passwordHash !== undefined && { passwordHash }),
          disabledAt: { $exists: false },
        },
        { $currentDate: { lastLoginAt: true } },
      );
      return matchedCount === 1;
    },
    /** Updates the operator of an OpenID identity with what its provider says now; undefined if there is none. */
    updateByOpenId: (openId: string, role: OperatorRole, accounts: OperatorAccounts) =>
      findAndUpdate({ openId }, { $set: { role, accounts } }),
    /** Counts the owners that may log in and see all accounts. */
    countOwners: (): Promise<number> => operators.countDocuments(MANAGES_OPERATORS),
    /** Puts an operator back as it was before a change or a removal. */
    async restore(operator: OperatorDocument): Promise<void> {
      await operators.replaceOne({ _id: operator._id }, operator, { upsert: true });
    },
    /** Removes an operator; false if it doesn't exist. */
    async remove(id: string): Promise<boolean> {
      return (await operators.deleteOne({ _id: id })).deletedCount === 1;
    },
  };
}
