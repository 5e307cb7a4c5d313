import { createGroup } from '@carillon/core/group';
import { newClaimId } from '@carillon/core/ids';
import { addCounts, OUTCOMES, type OutcomeCounts } from '@carillon/core/outcomes';
import type { Collection, Db } from 'mongodb';
import type { Clock } from './clock.ts';
import type { BatchDocument, InboxDocument, PushDocument } from './documents.ts';
import { eachItsOwn } from './each-its-own.ts';
import { answerable, countWork, sentTo } from './fates.ts';
import { rowId } from './inbox.ts';

/** How long fates are kept after a push has ended to the outside. */
const KEEP_FATES_MS = 2 * 86_400_000;

const UNCLOSED = { $in: ['waiting', 'ready'] as const };

type Ending = 'expired' | 'deleted';

/** A push to look at. */
interface Look {
  id: string;
  retentionMs: number;
}

type Ended = Pick<PushDocument, '_id' | 'state' | 'sendUntil' | 'fan' | 'work' | 'ending'>;

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
  const lookGrouped = createGroup<Look, Ending | undefined>((looks) => lookAt(tables, looks), {
    maxItems: 200,
    inFlight: 2,
  });
  return {
    /**
     * Looks whether a push has come to its end, and ends it: delivered to all (asked for in the order that no
     * hand-on can hide from), expired, or deleted. Lone looks share round trips; a long end keeps nobody else waiting.
     *
     * @param retentionMs how long a push delivered to all can be asked for
     */
    async finish(id: string, retentionMs: number): Promise<void> {
      const ending = await lookGrouped({ id, retentionMs });
      if (ending !== undefined) await endAll(tables, id, ending);
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

/** Ends those of some pushes that are delivered to all, and tells which others are to be ended. */
async function lookAt(tables: Tables, looks: readonly Look[]): Promise<(Ending | undefined)[]> {
  const ids = looks.map(({ id }) => id);
  const projection = { state: 1, sendUntil: 1, 'fan.done': 1, 'work.state': 1, ending: 1 };
  const found = await tables.pushes
    .find<Ended>({ _id: { $in: ids } }, { projection, batchSize: ids.length + 1 })
    .toArray();
  const endings = new Map<string, Ending | undefined>();
  const [delivered] = await Promise.all([
    allDelivered(tables, found),
    ...found.map(async (push) => {
      const isToExpire = push.ending === undefined && isOver(tables, push);
      const ending = isToExpire ? await beginExpiry(tables, push._id) : push.ending;
      endings.set(push._id, ending);
    }),
  ]);
  await finishDelivered(tables, delivered, looks);
  return ids.map((id) => endings.get(id));
}

/** Ends pushes that are delivered to all, with one statement. */
async function finishDelivered(
  tables: Tables,
  delivered: readonly Pick<PushDocument, '_id' | 'work'>[],
  looks: readonly Look[],
): Promise<void> {
  if (delivered.length === 0) return;
  const retentionOf = new Map(looks.map(({ id, retentionMs }) => [id, retentionMs]));
  const ids = delivered.map(({ _id }) => _id);
  const allCounts: OutcomeCounts[] = [];
  for (const push of delivered) {
    const sums = await sumOf(tables, push);
    allCounts.push(countsWith(sums, { rows: 0, sent: 0, ending: 'expired' }));
  }
  await tables.pushes.updateMany(
    { _id: { $in: ids }, state: 'open' },
    eachItsOwn('$_id', ids, (own) => ({
      state: 'finished',
      counts: own(allCounts),
      purgeAt: own(ids.map((id) => purgeTime(tables.clock, retentionOf.get(id) ?? 0))),
      finishedAt: '$$NOW',
    })),
  );
}

function isOver({ clock }: Tables, { state, sendUntil }: Ended): boolean {
  return state === 'open' && clock.now() >= sendUntil.getTime();
}

/** Undefined: it has ended otherwise meanwhile. */
async function beginExpiry({ pushes }: Tables, id: string): Promise<Ending | undefined> {
  const begun = await pushes.updateOne(
    { _id: id, state: 'open' },
    { $set: { state: 'finished', ending: 'expired' } },
  );
  return begun.modifiedCount === 1 ? 'expired' : undefined;
}

/**
 * In this order whatever dies in between: state (with `ending`), work, counts, rows, and `ending` goes last, so
 * that an end begun is found and completed. Repeating it is harmless.
 */
async function endAll(tables: Tables, id: string, ending: Ending): Promise<void> {
  const { pushes, inbox, clock } = tables;
  await closeAll(tables, id, OUTCOMES[ending]);
  const closed = await pushes.findOne({ _id: id }, { projection: { counts: 1 } });
  if (closed === null) return;
  const counts = closed.counts ?? (await finalCounts(tables, id, ending));
  // The first counts stay: whoever works on the same end may have counted while rows were already being removed.
  const first = { $ifNull: ['$counts', { $literal: counts }] };
  const purgeAt = purgeTime(clock, 0);
  await pushes.updateOne({ _id: id }, [{ $set: { counts: first, 'fan.done': true, purgeAt } }]);
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

/**
 * Counts at the end: who was last in an inbox and has no row any more gave way; who has one ends as `ending`. Rows
 * are counted first: a receipt is noted before its row goes, so one that comes meanwhile counts as delivered.
 */
async function finalCounts(tables: Tables, id: string, ending: Ending): Promise<OutcomeCounts> {
  const owing = await tables.inbox.countDocuments({ push: id });
  const push = await tables.pushes.findOne({ _id: id }, { projection: { work: 1, collapse: 1 } });
  if (push === null) return {};
  const counts = await sumOf(tables, push);
  const { inbox: handed = 0 } = counts;
  const rows = Math.min(handed, owing);
  const sent = rows === 0 ? 0 : Math.min(rows, await countSentOtherwise(tables, push));
  return countsWith(counts, { rows, sent, ending });
}

function countsWith(
  { inbox: handed = 0, owed = 0, ...others }: OutcomeCounts,
  { rows, sent, ending }: { rows: number; sent: number; ending: Ending },
): OutcomeCounts {
  const ended = rows - sent + owed;
  return addCounts(others, {
    ...(sent > 0 && { sent }),
    ...(ended > 0 && { [ending]: ended }),
    ...(handed > rows && { superseded: handed - rows }),
  });
}

/** Those still owed whom another channel's provider took the push for: sent is stronger than expired. */
async function countSentOtherwise(
  { batches, inbox }: Tables,
  push: Pick<PushDocument, '_id' | 'collapse'>,
): Promise<number> {
  const collapse = push.collapse === undefined ? {} : { collapse: push.collapse };
  let sent = 0;
  for await (const fallback of batches.find({ push: push._id, 'work.fallback': true })) {
    const ids = sentTo(fallback).map((token) => rowId({ token, push: push._id, ...collapse }));
    if (ids.length > 0) sent += await inbox.countDocuments({ _id: { $in: ids }, push: push._id });
  }
  return sent;
}

async function sumOf(
  { batches }: Tables,
  push: Pick<PushDocument, '_id' | 'work'>,
): Promise<OutcomeCounts> {
  if (push.work !== undefined) return countWork(push.work);
  let sum: OutcomeCounts = {};
  for await (const { work } of batches.find(answerable(push._id))) {
    sum = addCounts(sum, countWork(work));
  }
  return sum;
}

/**
 * Those that are delivered to all. Each hand-on writes the next debt before it closes its own, so looking in this
 * order misses none: the pushes (before the call), batches, inboxes.
 */
async function allDelivered(
  tables: Tables,
  found: readonly Ended[],
): Promise<Pick<PushDocument, '_id' | 'work'>[]> {
  const closed = found.filter(
    (push) =>
      push.ending === undefined &&
      push.state === 'open' &&
      !isOver(tables, push) &&
      push.fan.done &&
      (push.work === undefined || push.work.state === 'closed'),
  );
  if (closed.length === 0) return [];
  const ids = closed.map(({ _id }) => _id);
  const worked = new Set(
    await tables.batches.distinct('push', { push: { $in: ids }, 'work.state': UNCLOSED }),
  );
  const rest = ids.filter((id) => !worked.has(id));
  if (rest.length === 0) return [];
  const owed = new Set(await tables.inbox.distinct('push', { push: { $in: rest } }));
  const delivered = rest.filter((id) => !owed.has(id));
  if (delivered.length === 0) return [];
  // Read again: a receipt may have been noted, and its row have gone, since the pushes were read.
  return tables.pushes
    .find({ _id: { $in: delivered } }, { projection: { work: 1 }, batchSize: delivered.length + 1 })
    .toArray();
}
