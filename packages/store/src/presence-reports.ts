import type { Db } from 'mongodb';
import type { PresenceReportDocument } from './documents.ts';

/** A list that no worker has registered for so long is not in use any more; it is registered every 15 s. */
const LIST_IN_USE_MS = 60_000;

const LIST = 'list ';
const MISSED = 'missed ';

/** Reports of workers to gateways without Redis. */
export interface PresenceReports {
  /** The lists of servers with which workers look up devices. */
  lists: string[];
  /** Number of times that rows of a shard's devices were reported, by the name of the shard. */
  missed: Map<string, number>;
}

/**
 * Reports of workers to gateways about presence: one document for each list of servers in use, and for each shard whose
 * devices got inbox rows without a lookup.
 */
export function createPresenceReports(db: Db) {
  const reports = db.collection<PresenceReportDocument>('presence_reports');
  const touch = { $currentDate: { at: true }, $inc: { count: 1 } } as const;

  return {
    /** Registers a list by which a worker looks up devices. */
    async registerList(list: string): Promise<void> {
      await reports.updateOne({ _id: `${LIST}${list}` }, touch, { upsert: true });
    },
    /** Reports that rows were written whose devices could not be looked up, by the names of their shards. */
    async reportMissed(shards: readonly string[]): Promise<void> {
      const updates = shards.map((shard) => ({
        updateOne: { filter: { _id: `${MISSED}${shard}` }, update: touch, upsert: true },
      }));
      await reports.bulkWrite(updates, { ordered: false });
    },
    async read(): Promise<PresenceReports> {
      const isInUse = { $gt: ['$at', { $subtract: ['$$NOW', LIST_IN_USE_MS] }] };
      const isMissed = { _id: { $gte: MISSED, $lt: `${MISSED}\uffff` } };
      const found = await reports.find({ $or: [isMissed, { $expr: isInUse }] }).toArray();
      const lists = found.filter(({ _id }) => _id.startsWith(LIST));
      const missed = found.filter(({ _id }) => _id.startsWith(MISSED));
      return {
        lists: lists.map(({ _id }) => _id.slice(LIST.length)),
        missed: new Map(missed.map(({ _id, count }) => [_id.slice(MISSED.length), count])),
      };
    },
  };
}
