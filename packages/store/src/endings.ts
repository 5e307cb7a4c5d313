import { newClaimId } from '@carillon/core/ids';
import { addCounts, OUTCOMES, type OutcomeCounts } from '@carillon/core/outcomes';
import type { Collection, Db } from 'mongodb';
import type { Clock } from './clock.ts';
import type { BatchDocument, InboxDocument, PushDocument } from './documents.ts';
import { answerable, countWork, sentTo } from './fates.ts';
import { rowId } from './inbox.ts';

/** How long fates are kept after a push has ended to the outside. */
const KEEP_FATES_MS = 2 * 86_400_000;

const UNCLOSED = { $in: ['waiting', 'ready'] as const };

type Ending = 'expired' | 'deleted';

interface Tables {
  pushes: Collection<PushDocument>;
  batches: Collection<BatchDocument>;
  inbox: Collection<InboxDocument>;
  clock: Clock;
}

/** The end of pushes: delivered to all, expired, deleted. */
export function createEndings(db: Db, clock: Clock) {
  const tables: Tables = {
    pushes: db.collection('pushes'),
    batches: db.collection('batches'),
    inbox: db.collection('inbox'),
    clock,
  };
  const { pushes } = tables;
  return {
    /**
     * Looks whether a push has come to its end, and ends it: delivered to all (asked for in the order that no
     * hand-on can hide from), expired, or deleted.
     *
     * @param retentionMs how long a push delivered to all can be asked for
     */
    async finish(id: string, retentionMs: number): Promise<void> {
      const push = await pushes.findOne({ _id: id });
      if (push === null) return;
      if (push.ending !== undefined) return endAll(tables, id, push.ending);
      if (push.state !== 'open') return;
      if (clock.now() >= push.sendUntil.getTime()) return expire(tables, id);
      if (!(await isAllDelivered(tables, push))) return;
      const counts = await finalCounts(tables, push, 'expired');
      await pushes.updateOne(
        { _id: id, state: 'open' },
        {
          $set: { state: 'finished', counts, purgeAt: purgeTime(clock, retentionMs) },
          $currentDate: { finishedAt: true },
        },
      );
    },

    /** Marks an app's push deleted, from which moment nothing of it is sent; `finish` does the rest. */
    async markDeleted(app: string, id: string): Promise<boolean> {
      const marked = await pushes.updateOne(
        { _id: id, app, state: { $in: ['scheduled', 'open', 'finished'] } },
        { $set: { state: 'deleted', ending: 'deleted' } },
      );
      return marked.modifiedCount === 1;
    },

    /** When the document of a push that is delivered to all now may go. */
    purgeTime: (retentionMs: number): Date => purgeTime(clock, retentionMs),

    /** Pushes whose time is up, and those whose end was begun and not completed. */
    async due(limit: number): Promise<string[]> {
      const expired = { state: 'open', expiresAt: { $lte: new Date(clock.now()) } } as const;
      const isOver = { $expr: { $lte: ['$sendUntil', '$$NOW'] } };
      const lists = await Promise.all(
        [{ ...expired, ...isOver }, { ending: { $exists: true } }].map((filter) =>
          pushes
            .find(filter, { projection: { _id: 1 } })
            .limit(limit)
            .toArray(),
        ),
      );
      return lists.flat().map((push) => push._id);
    },
  };
}

function purgeTime(clock: Clock, retentionMs: number): Date {
  return new Date(clock.now() + retentionMs + KEEP_FATES_MS);
}

async function expire(tables: Tables, id: string): Promise<void> {
  const begun = await tables.pushes.updateOne(
    { _id: id, state: 'open' },
    { $set: { state: 'finished', ending: 'expired' } },
  );
  if (begun.modifiedCount === 1) await endAll(tables, id, 'expired');
}

/**
 * In this order whatever dies in between: state (with `ending`), work, counts, rows, and `ending` goes last, so
 * that an end begun is found and completed. Repeating it is harmless.
 */
async function endAll(tables: Tables, id: string, ending: Ending): Promise<void> {
  const { pushes, inbox, clock } = tables;
  await closeAll(tables, id, OUTCOMES[ending]);
  const closed = await pushes.findOne({ _id: id });
  if (closed === null) return;
  const counts = closed.counts ?? (await finalCounts(tables, closed, ending));
  const purgeAt = purgeTime(clock, 0);
  await pushes.updateOne({ _id: id }, { $set: { counts, 'fan.done': true, purgeAt } });
  await inbox.deleteMany({ push: id });
  await pushes.updateOne({ _id: id }, { $unset: { ending: true } });
}

/** Nothing of the push is worked any more: whoever held a claim loses it. */
async function closeAll({ pushes, batches }: Tables, push: string, ended: number): Promise<void> {
  const close = {
    $set: { 'work.state': 'closed', 'work.claim': newClaimId(), 'work.ended': ended },
    $currentDate: { 'work.closedAt': true },
  } as const;
  await pushes.updateOne({ _id: push, 'work.state': UNCLOSED }, close);
  await batches.updateMany({ push, 'work.state': UNCLOSED }, close);
}

/** Counts at the end: who was last in an inbox and has no row any more gave way; who has one ends as `ending`. */
async function finalCounts(
  tables: Tables,
  push: PushDocument,
  ending: Ending,
): Promise<OutcomeCounts> {
  const { inbox: handed = 0, owed = 0, ...others } = await sumOf(tables, push);
  const owing = handed === 0 ? 0 : await tables.inbox.countDocuments({ push: push._id });
  const rows = Math.min(handed, owing);
  const sent = rows === 0 ? 0 : Math.min(rows, await countSentOtherwise(tables, push));
  const ended = rows - sent + owed;
  return addCounts(others, {
    ...(sent > 0 && { sent }),
    ...(ended > 0 && { [ending]: ended }),
    ...(handed > rows && { superseded: handed - rows }),
  });
}

/** Those still owed whom another channel's provider took the push for: sent is stronger than expired. */
async function countSentOtherwise({ batches, inbox }: Tables, push: PushDocument): Promise<number> {
  const collapse = push.collapse === undefined ? {} : { collapse: push.collapse };
  let sent = 0;
  for await (const fallback of batches.find({ push: push._id, 'work.fallback': true })) {
    const ids = sentTo(fallback).map((token) => rowId({ token, push: push._id, ...collapse }));
    if (ids.length > 0) sent += await inbox.countDocuments({ _id: { $in: ids }, push: push._id });
  }
  return sent;
}

async function sumOf({ batches }: Tables, push: PushDocument): Promise<OutcomeCounts> {
  if (push.work !== undefined) return countWork(push.work);
  let sum: OutcomeCounts = {};
  for await (const { work } of batches.find(answerable(push._id))) {
    sum = addCounts(sum, countWork(work));
  }
  return sum;
}

/** Each hand-on writes the next debt before it closes its own, so looking in this order misses none. */
async function isAllDelivered({ batches, inbox }: Tables, push: PushDocument): Promise<boolean> {
  if (!push.fan.done) return false;
  if (push.work !== undefined && push.work.state !== 'closed') return false;
  const only = { projection: { _id: 1 } } as const;
  if ((await batches.findOne({ push: push._id, 'work.state': UNCLOSED }, only)) !== null) {
    return false;
  }
  return (await inbox.findOne({ push: push._id }, only)) === null;
}
