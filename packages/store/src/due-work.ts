import type { Db, Document } from 'mongodb';
import { COMMITTED } from './batch-holders.ts';
import type { Clock } from './clock.ts';
import { dueBatchFilter } from './due-batches.ts';
import { dueFanOutFilter } from './fan-outs.ts';
import { dueCompletionFilters } from './push-completion.ts';
import { duePushFilter } from './pushes.ts';
import type { Suspensions } from './suspensions.ts';

/** Stages that keep the id of one document. */
const ANY = [{ $limit: 1 }, { $project: { _id: 1 } }] as const;

/** Asks for all kinds of due work at once: mostly there is none, and a statement for each kind costs twice as much. */
export function createDueWork(
  db: Db,
  clock: Pick<Clock, 'now'>,
  suspensions: Pick<Suspensions, 'filter'>,
) {
  return {
    /**
     * Checks whether a scheduled push, a batch, a fan-out or the end of a push is due: what `pushes.openDue` opens, and what
     * `batchTable`, `fanOuts` and `pushCompletion` find.
     */
    async exists(): Promise<boolean> {
      const batchFilter = dueBatchFilter(suspensions);
      const pushFilters: Document[] = [
        duePushFilter(clock, suspensions),
        { ...batchFilter, state: 'open' },
        dueFanOutFilter(suspensions),
        ...dueCompletionFilters(clock),
      ];
      const found = await db
        .collection('pushes')
        .aggregate(
          [
            { $match: { $or: pushFilters } },
            ...ANY,
            { $unionWith: { coll: 'batches', pipeline: [{ $match: batchFilter }, ...ANY] } },
            { $limit: 1 },
          ],
          COMMITTED,
        )
        .toArray();
      return found.length > 0;
    },
  };
}
