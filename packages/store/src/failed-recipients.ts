import { splitTokens } from '@carillon/core/batch';
import { isBatchId, pushIdOfBatch } from '@carillon/core/ids';
import type { AnyBulkWriteOperation, Db } from 'mongodb';
import type { Batch, BatchDocument, PushDocument, RedriveFilter } from './documents.ts';
import {
  type BatchWithFailures,
  compareById,
  failedPositions,
  type Holder,
  type Holders,
  hasReason,
  readMarks,
} from './failed-batches.ts';
import { batchIdsOf } from './final-outcomes.ts';
import { FAILURES_BY_PUSH_INDEX } from './migrate.ts';
import { OUTCOME_PROJECTION } from './recipient-status.ts';
import { isRedriven, packPositions } from './redriven.ts';

/** Batches whose failed recipients go into one new push: at most as many recipients as a push may name. */
const BATCHES_PER_PART = 100;

const FAILED_FIELDS = {
  ...OUTCOME_PROJECTION,
  'work.channel': 1,
  'work.tokens': 1,
  'work.failedAt': 1,
  'work.redriven': 1,
} as const;

const PUSH_FIELDS = {
  app: 1,
  state: 1,
  expiresAt: 1,
  sendUntil: 1,
  data: 1,
  options: 1,
  collapse: 1,
  ...FAILED_FIELDS,
} as const;

/** A push whose failed recipients are sent to again. */
export type FailedPush = Pick<
  PushDocument,
  '_id' | 'app' | 'state' | 'expiresAt' | 'sendUntil' | 'data' | 'options' | 'collapse'
> & { work?: BatchWithFailures & Pick<Batch, 'tokens'> };

/** Recipients of one batch that a re-drive sends to again. */
export interface BatchRecipients {
  batch: string;
  /** Number of the batch's recipients. */
  n: number;
  positions: number[];
  /** In the order of the positions. */
  tokens: string[];
  /** An earlier run of the same re-drive has reserved exactly these. */
  isReserved: boolean;
}

/** Identity of a re-drive, and the failures that it is for. */
export interface RedriveScope extends Pick<RedriveFilter, 'channel' | 'reason'> {
  by: string;
  to: Date;
}

/**
 * Failed recipients, by push. A re-drive reserves recipients in their batch before it sends to them again, so
 * that neither a repeated run nor a later re-drive sends to them twice.
 */
export function createFailedRecipients(db: Db) {
  const pushes = db.collection<PushDocument>('pushes');
  const batches = db.collection<BatchDocument>('batches');
  const holders = [pushes, batches] as unknown as [Holders, Holders];
  const tables = { pushes: holders[0], batches: holders[1] };

  return {
    ...createReservations(holders),
    /**
     * Reads the ids of an app's pushes with failures that were marked until `to`, in order and each once. Reads
     * index entries only.
     *
     * @param after the id of the last push of an earlier read
     */
    async *iteratePushes(
      app: string,
      { channel, reason, from, to }: RedriveFilter & { to: Date },
      after = '',
    ): AsyncGenerator<string> {
      const filter = {
        app,
        // Sorts after the batches of that push, whose ids continue with a hyphen.
        _id: { $gt: `${after}.` },
        'work.failedAt': { $gte: from ?? new Date(0), $lte: to },
        ...(channel !== undefined && { 'work.channel': channel }),
      };
      const order = {
        sort: [['_id', 1]] satisfies [string, 1 | -1][],
        hint: FAILURES_BY_PUSH_INDEX,
        batchSize: 1_000,
      };
      let previous = '';
      for await (const mark of readMarks(tables, filter, order, compareById)) {
        const push = pushIdOfBatch(mark._id);
        if (push === previous || !hasReason(mark, reason)) continue;
        previous = push;
        yield push;
      }
    },

    /** Finds a push of an app with the fields that a re-drive needs. */
    findPush: async (app: string, id: string): Promise<FailedPush | undefined> =>
      (await pushes.findOne<FailedPush>({ _id: id, app }, { projection: PUSH_FIELDS })) ??
      undefined,

    /**
     * Reads the failed recipients of a push by batch, in parts of one new push each. The parts of a repeated run have
     * the same batches: they are those that were marked until `to`.
     */
    async *iterateParts(push: FailedPush, scope: RedriveScope): AsyncGenerator<BatchRecipients[]> {
      const { channel, to } = scope;
      if (push.work !== undefined) {
        const { failedAt } = push.work;
        const isMarked = failedAt !== undefined && failedAt <= to;
        if (!isMarked || (channel !== undefined && channel !== push.work.channel)) return;
        yield [selectRecipients(push._id, push.work, scope)];
        return;
      }
      const marked = batches.find<{ _id: string; work: BatchWithFailures & Pick<Batch, 'tokens'> }>(
        {
          app: push.app,
          ...batchIdsOf(push._id),
          'work.failedAt': { $gte: new Date(0), $lte: to },
          ...(channel !== undefined && { 'work.channel': channel }),
        },
        {
          projection: FAILED_FIELDS,
          sort: { _id: 1 },
          hint: FAILURES_BY_PUSH_INDEX,
          batchSize: BATCHES_PER_PART,
        },
      );
      let part: BatchRecipients[] = [];
      for await (const { _id, work } of marked) {
        part.push(selectRecipients(_id, work, scope));
        if (part.length < BATCHES_PER_PART) continue;
        yield part;
        part = [];
      }
      if (part.length > 0) yield part;
    },
  };
}

/** Creates the functions that reserve recipients in their batches. */
function createReservations(holders: readonly Holders[]) {
  return {
    /**
     * Reserves recipients durably.
     *
     * @returns false if another worker has reserved some of them for the same re-drive meanwhile
     */
    async reserve(by: string, recipients: readonly BatchRecipients[]): Promise<boolean> {
      const byBatch = new Map(recipients.map((one) => [one.batch, one]));
      const written = await writeAll(holders, [...byBatch.keys()], (id) => {
        const { positions = [], n = 0 } = byBatch.get(id) ?? {};
        const entry = { by, bits: packPositions(positions, n) };
        return {
          updateOne: {
            filter: { _id: id, 'work.redriven.by': { $ne: by } },
            update: { $push: { 'work.redriven': entry } },
          },
        };
      });
      return written === byBatch.size;
    },

    /** Cancels a reservation: nothing was sent. */
    async release(by: string, recipients: readonly BatchRecipients[]): Promise<void> {
      await writeAll(
        holders,
        recipients.map(({ batch }) => batch),
        (id) => ({
          updateOne: { filter: { _id: id }, update: { $pull: { 'work.redriven': { by } } } },
        }),
      );
    },
  };
}

/** Writes to batches, whether they have a document of their own or lie in their push. Returns how many it changed. */
async function writeAll(
  holders: readonly Holders[],
  ids: readonly string[],
  toOperation: (id: string) => AnyBulkWriteOperation<Holder>,
): Promise<number> {
  const written = await Promise.all(
    holders.map(async (collection, index) => {
      const operations = ids.filter((id) => isBatchId(id) === (index === 1)).map(toOperation);
      if (operations.length === 0) return 0;
      return (await collection.bulkWrite(operations, { ordered: false })).modifiedCount;
    }),
  );
  return written.reduce((sum, n) => sum + n, 0);
}

function selectRecipients(
  batch: string,
  work: BatchWithFailures & Pick<Batch, 'tokens'>,
  { by, reason }: RedriveScope,
): BatchRecipients {
  const isReserved = work.redriven?.some((entry) => entry.by === by) === true;
  const tokens = splitTokens(work.tokens);
  const positions = isReserved
    ? [...tokens.keys()].filter((position) => isRedriven(work, position, by))
    : failedPositions(work, reason).filter((position) => !isRedriven(work, position));
  return {
    batch,
    n: work.n,
    positions,
    tokens: positions.map((position) => tokens[position] ?? ''),
    isReserved,
  };
}
