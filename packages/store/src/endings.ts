import { newClaimId } from '@carillon/core/ids';
import { addCounts, OUTCOMES, type OutcomeCounts } from '@carillon/core/outcomes';
import type { Db } from 'mongodb';
import type { Clock } from './clock.ts';
import type { BatchDocument, InboxDocument, PushDocument } from './documents.ts';
import { countWork } from './fates.ts';

/** How long fates are kept after a push has ended to the outside. */
const KEEP_FATES_MS = 2 * 86_400_000;

const UNCLOSED = { $in: ['waiting', 'ready'] as const };

/** The end of pushes: delivered to all, expired, deleted. */
export function createEndings(db: Db, clock: Clock) {
  const pushes = db.collection<PushDocument>('pushes');
  const batches = db.collection<BatchDocument>('batches');
  const inbox = db.collection<InboxDocument>('inbox');

  async function sumOf(push: PushDocument): Promise<OutcomeCounts> {
    if (push.work !== undefined) return countWork(push.work);
    let sum: OutcomeCounts = {};
    for await (const { work } of batches.find({ push: push._id }))
      sum = addCounts(sum, countWork(work));
    return sum;
  }

  /** Counts at the end: who was last in an inbox and has no row any more gave way; who has one ends as `ending`. */
  async function finalCounts(
    push: PushDocument,
    ending: 'expired' | 'deleted',
  ): Promise<OutcomeCounts> {
    const { inbox: handed = 0, owed = 0, ...others } = await sumOf(push);
    const rows =
      handed === 0 ? 0 : Math.min(handed, await inbox.countDocuments({ push: push._id }));
    const ended = rows + owed;
    return addCounts(others, {
      ...(ended > 0 && { [ending]: ended }),
      ...(handed > rows && { superseded: handed - rows }),
    });
  }

  /** Nothing of the push is worked any more: whoever held a claim loses it. */
  async function closeAll(push: string, ended: number): Promise<void> {
    const close = {
      $set: { 'work.state': 'closed', 'work.claim': newClaimId(), 'work.ended': ended },
      $currentDate: { 'work.closedAt': true },
    } as const;
    await pushes.updateOne({ _id: push, 'work.state': UNCLOSED }, close);
    await batches.updateMany({ push, 'work.state': UNCLOSED }, close);
  }

  /**
   * In this order whatever dies in between: state (with `ending`), work, counts, rows, and `ending` goes last, so
   * that an end begun is found and completed. Repeating it is harmless.
   */
  async function endAll(id: string, ending: 'expired' | 'deleted'): Promise<void> {
    await closeAll(id, OUTCOMES[ending]);
    const closed = await pushes.findOne({ _id: id });
    if (closed === null) return;
    const counts = closed.counts ?? (await finalCounts(closed, ending));
    const purgeAt = new Date(clock.now() + KEEP_FATES_MS);
    await pushes.updateOne({ _id: id }, { $set: { counts, 'fan.done': true, purgeAt } });
    await inbox.deleteMany({ push: id });
    await pushes.updateOne({ _id: id }, { $unset: { ending: true } });
  }

  async function isAllDelivered(push: PushDocument): Promise<boolean> {
    if (!push.fan.done) return false;
    if (push.work !== undefined && push.work.state !== 'closed') return false;
    if (push.work === undefined) {
      const open = await batches.findOne(
        { push: push._id, 'work.state': UNCLOSED },
        { projection: { _id: 1 } },
      );
      if (open !== null) return false;
    }
    return (await inbox.findOne({ push: push._id }, { projection: { _id: 1 } })) === null;
  }

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
      if (push.ending !== undefined) return endAll(id, push.ending);
      if (push.state !== 'open') return;
      if (clock.now() >= push.sendUntil.getTime()) return begin(id, 'finished', 'expired');
      if (!(await isAllDelivered(push))) return;
      const counts = await finalCounts(push, 'expired');
      await pushes.updateOne(
        { _id: id, state: 'open' },
        {
          $set: { state: 'finished', counts, purgeAt: purgeTime(retentionMs) },
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
    purgeTime,

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

  function purgeTime(retentionMs: number): Date {
    return new Date(clock.now() + retentionMs + KEEP_FATES_MS);
  }

  async function begin(
    id: string,
    state: 'finished' | 'deleted',
    ending: 'expired' | 'deleted',
  ): Promise<void> {
    const begun = await pushes.updateOne({ _id: id, state: 'open' }, { $set: { state, ending } });
    if (begun.modifiedCount === 1) await endAll(id, ending);
  }
}
