import { newAuditId, toIdPrefix } from '@carillon/core/ids';
import type { Db, Filter } from 'mongodb';
import type { Clock } from './clock.ts';
import type { AuditDocument, AuditFacts, OperatorAccounts } from './console-documents.ts';

/** Facts of an action that begins. */
export type AuditEntry = Pick<
  AuditDocument,
  'actor' | 'action' | 'account' | 'facts' | 'address' | 'requestId'
>;

/** An entry with its end; without one the process died during the action, or it is under way. */
export interface ListedAuditEntry extends AuditDocument {
  ends: { result?: string; facts: AuditFacts }[];
}

/** Selects entries of the audit log. */
export interface AuditQuery {
  /** Accounts whose entries are listed; with `all` also entries of no account. */
  accounts: OperatorAccounts;
  /** Id or name of the operator. */
  actor?: string | undefined;
  action?: string | undefined;
  /** Unix milliseconds, inclusive. */
  from?: number | undefined;
  /** Unix milliseconds, exclusive. */
  to?: number | undefined;
  /** Lists entries older than this id. */
  before?: string | undefined;
  limit: number;
}

/** The audit log of the console. Entries are only inserted: an action's end is an entry of its own. */
export function createAudit(db: Db, clock: Clock) {
  const audit = db.collection<AuditDocument>('audit');

  async function insert(entry: Omit<AuditDocument, '_id' | 'at'>): Promise<string> {
    const now = clock.now();
    const _id = newAuditId(now);
    await audit.insertOne({ _id, at: new Date(now), ...entry });
    return _id;
  }

  return {
    /** Records that an action begins, so that no action goes unrecorded. Returns the entry's id. */
    begin: (entry: AuditEntry): Promise<string> => insert(entry),
    /** Records the result of an action. @param result `done` or the code of an error */
    async end(of: string, entry: AuditEntry, result: string, facts: AuditFacts): Promise<void> {
      await insert({ ...entry, facts, of, result });
    },
    /** Lists entries, newest first, each with its end. */
    list: (query: AuditQuery) =>
      audit
        .aggregate<ListedAuditEntry>([
          { $match: buildFilter(query) },
          { $sort: { _id: -1 } },
          { $limit: query.limit },
          {
            $lookup: {
              from: 'audit',
              localField: '_id',
              foreignField: 'of',
              pipeline: [{ $project: { _id: 0, result: 1, facts: 1 } }],
              as: 'ends',
            },
          },
        ])
        .toArray(),
  };
}

function buildFilter({
  accounts,
  actor,
  action,
  from,
  to,
  before,
}: AuditQuery): Filter<AuditDocument> {
  const bounds: Filter<AuditDocument>[] = [];
  if (from !== undefined) bounds.push({ _id: { $gte: toIdPrefix(from) } });
  if (to !== undefined) bounds.push({ _id: { $lt: toIdPrefix(to) } });
  if (before !== undefined) bounds.push({ _id: { $lt: before } });
  if (actor !== undefined) bounds.push({ $or: [{ 'actor.id': actor }, { 'actor.name': actor }] });
  return {
    of: { $exists: false },
    ...(accounts !== 'all' && { account: { $in: [...accounts] } }),
    ...(action !== undefined && { action }),
    ...(bounds.length > 0 && { $and: bounds }),
  };
}
