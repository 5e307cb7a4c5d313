import { setTimeout as sleep } from 'node:timers/promises';
import { createBatcher } from '@carillon/core/batcher';
import { failpoint } from '@carillon/core/failpoint';
import type { OutcomeCounts } from '@carillon/core/outcomes';
import type { Collection, Db, Document, Filter, UpdateResult } from 'mongodb';
import { setPerDocument } from './bulk-set.ts';
import type { Clock } from './clock.ts';
import type { BatchDocument, InboxDocument, PushDocument } from './documents.ts';
import {
  closeBatches,
  type EndReason,
  fixOutcomes,
  markReplayed,
  NOTIFY_FIELDS,
  sumOutcomes,
} from './final-outcomes.ts';
import { NOTIFY_MARK } from './notify-mark.ts';
import { PARKED_AT } from './parked-batches.ts';

/** Retention of the outcomes of recipients after a push has ended for its sender. */
export const STATUS_RETENTION_MS = 2 * 86_400_000;

const UNCLOSED = { $in: ['waiting', 'ready'] as const };

/**
 * Maximum wait for workers to settle what they have sent when a push ends: all results of a dispatch arrive within a
 * second and a half.
 */
const SETTLE_WITHIN_MS = 2_000;
/** Interval between two checks for claims. */
const CLAIM_POLL_MS = 250;

/** A push to check. */
interface CompletionCheck {
  id: string;
  retentionMs: number;
}

type CheckedPush = Pick<PushDocument, '_id' | 'state' | 'sendUntil' | 'fan' | 'work' | 'ending'>;

interface Tables {
  pushes: Collection<PushDocument>;
  batches: Collection<BatchDocument>;
  inbox: Collection<InboxDocument>;
  clock: Clock;
}

/** Ends pushes: delivered to all, expired, or deleted. */
export function createPushCompletion(db: Db, clock: Clock) {
  const tables: Tables = {
    pushes: db.collection('pushes'),
    batches: db.collection('batches'),
    inbox: db.collection('inbox'),
    clock,
  };
  const { pushes } = tables;
  const checkBatched = createBatcher<CompletionCheck, EndReason | undefined>(
    'check-completion',
    (checks) => checkCompletion(tables, checks),
    {
      maxBatchSize: 200,
      maxInFlight: 2,
    },
  );
  return {
    /**
     * Checks whether a push is delivered to all, expired or deleted, and ends it if so. Concurrent checks share round
     * trips; an end that takes long delays no other check.
     *
     * @param retentionMs time for which the status of a push that is delivered to all stays available
     */
    async completeIfDone(id: string, retentionMs: number): Promise<void> {
      const ending = await checkBatched({ id, retentionMs });
      if (ending !== undefined) await terminate(tables, id, ending);
    },

    /** Marks an app's push deleted: from then on nothing of it is sent. {@link completeIfDone} does the rest. */
    async markDeleted(app: string, id: string): Promise<boolean> {
      const updated = await pushes.updateOne(
        { _id: id, app, state: { $in: ['scheduled', 'open', 'finished'] } },
        { $set: { state: 'deleted', ending: 'deleted' } },
      );
      return updated.modifiedCount === 1;
    },

    /** Returns when the document of a push that is delivered to all now may be removed. */
    computePurgeAt: (retentionMs: number): Date => computePurgeAt(clock, retentionMs),

    /** Finds pushes that have expired, and those whose end has begun but is not complete. */
    async findDue(limit: number): Promise<string[]> {
      const expired = { state: 'open', expiresAt: { $lte: new Date(clock.now()) } } as const;
      const isPastSendUntil = { $expr: { $lte: ['$sendUntil', '$$NOW'] } };
      const lists = await Promise.all(
        [{ ...expired, ...isPastSendUntil }, { ending: { $exists: true } }].map((filter) =>
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

function computePurgeAt(clock: Clock, retentionMs: number): Date {
  return new Date(clock.now() + retentionMs + STATUS_RETENTION_MS);
}

/** Finishes the pushes that are delivered to all, and returns how each of the others has to end, if it has to. */
async function checkCompletion(
  tables: Tables,
  checks: readonly CompletionCheck[],
): Promise<(EndReason | undefined)[]> {
  const ids = checks.map(({ id }) => id);
  const projection = { state: 1, sendUntil: 1, 'fan.done': 1, 'work.state': 1, ending: 1 };
  const found = await tables.pushes
    .find<CheckedPush>({ _id: { $in: ids } }, { projection, batchSize: ids.length + 1 })
    .toArray();
  const completions = new Map<string, EndReason | undefined>();
  const [delivered] = await Promise.all([
    findAllDelivered(tables, found),
    ...found.map(async (push) => {
      const shouldExpire = push.ending === undefined && hasSendTimeEnded(tables, push);
      const ending = shouldExpire ? await startExpiry(tables, push._id) : push.ending;
      completions.set(push._id, ending);
    }),
  ]);
  await finishAllDelivered(tables, delivered, checks);
  return ids.map((id) => completions.get(id));
}

/** Finishes pushes that are delivered to all with one statement. */
async function finishAllDelivered(
  tables: Tables,
  delivered: readonly Pick<PushDocument, '_id' | 'work' | 'notify'>[],
  checks: readonly CompletionCheck[],
): Promise<void> {
  if (delivered.length === 0) return;
  const retentionMsById = new Map(checks.map(({ id, retentionMs }) => [id, retentionMs]));
  const ids = delivered.map(({ _id }) => _id);
  const allCounts: OutcomeCounts[] = [];
  let isReported = false;
  for (const push of delivered) {
    const { counts, mayChange } = await sumOutcomes(tables, push);
    const fixed = mayChange
      ? await fixOutcomes(tables, push._id, 'expired')
      : { counts, notify: push.notify };
    allCounts.push(fixed.counts);
    isReported ||= fixed.notify !== undefined;
    await markReplayed(tables, push._id, fixed.notify);
  }
  await endPushes(delivered.length, isReported, (filter, mark) =>
    tables.pushes.updateMany(
      { _id: { $in: ids }, state: 'open', ...filter },
      setPerDocument('$_id', ids, (pick) => ({
        state: 'finished',
        counts: pick(allCounts),
        purgeAt: pick(ids.map((id) => computePurgeAt(tables.clock, retentionMsById.get(id) ?? 0))),
        finishedAt: '$$NOW',
        ...mark,
      })),
    ),
  );
}

/**
 * Ends pushes with one statement, which sets no mark if they have no webhooks. It does not match a push to which a
 * replay has added a webhook since the push was read; a second statement ends that push.
 */
async function endPushes(
  count: number,
  isReported: boolean,
  end: (filter: Filter<PushDocument>, mark: Document) => Promise<UpdateResult>,
): Promise<void> {
  if (!isReported) {
    const { matchedCount } = await end({ notify: { $exists: false } }, {});
    if (matchedCount === count) return;
  }
  await end({}, { notify: NOTIFY_MARK });
}

function hasSendTimeEnded({ clock }: Tables, { state, sendUntil }: CheckedPush): boolean {
  return state === 'open' && clock.now() >= sendUntil.getTime();
}

/**
 * Marks an open push expired.
 *
 * @returns undefined if it has ended in another way meanwhile
 */
async function startExpiry({ pushes }: Tables, id: string): Promise<EndReason | undefined> {
  const started = await pushes.updateOne(
    { _id: id, state: 'open' },
    { $set: { state: 'finished', ending: 'expired' } },
  );
  return started.modifiedCount === 1 ? 'expired' : undefined;
}

/**
 * Waits until no worker holds a batch of a push that has ended, two seconds at most. Workers send nothing more of it, but
 * what they have sent counts: a device that has acknowledged has the push.
 */
async function awaitSettlements({ pushes, batches }: Tables, push: string): Promise<void> {
  const isHeld = {
    'work.state': 'ready' as const,
    'work.claim': { $exists: true },
    // The lease of a parked batch has ended.
    'work.at': { $ne: PARKED_AT },
    $expr: { $gt: ['$work.at', '$$NOW'] },
  };
  const options = { projection: { _id: 1 } } as const;
  const deadline = performance.now() + SETTLE_WITHIN_MS;
  while (performance.now() < deadline) {
    const held = await Promise.all([
      pushes.findOne({ _id: push, ...isHeld }, options),
      batches.findOne({ push, ...isHeld }, options),
    ]);
    if (held.every((holder) => holder === null)) return;
    await sleep(CLAIM_POLL_MS);
  }
}

/**
 * Completes an expiry or a deletion that is marked by `ending`. The order is batches, outcomes, counts, rows, and
 * `ending` last: if the process dies in between, the push is found by `ending` and the rest is done. Every step is
 * idempotent.
 */
async function terminate(tables: Tables, id: string, ending: EndReason): Promise<void> {
  const { pushes, inbox, clock } = tables;
  await awaitSettlements(tables, id);
  await closeBatches(tables, id, ending);
  failpoint('completion');
  const projection = { counts: 1, ...NOTIFY_FIELDS };
  const storedPush = await pushes.findOne({ _id: id }, { projection });
  if (storedPush === null) return;
  const { counts, notify } =
    storedPush.counts === undefined
      ? await fixOutcomes(tables, id, ending)
      : { counts: storedPush.counts, notify: storedPush.notify };
  await markReplayed(tables, id, notify);
  // The first counts stay: another process may have counted while this one was already removing rows.
  const firstCounts = { $ifNull: ['$counts', { $literal: counts }] };
  const purgeAt = computePurgeAt(clock, 0);
  const ended = { counts: firstCounts, 'fan.done': true, purgeAt };
  await endPushes(1, notify !== undefined, (filter, mark) =>
    pushes.updateOne({ _id: id, ...filter }, [{ $set: { ...ended, ...mark } }]),
  );
  failpoint('completion-counted');
  await inbox.deleteMany({ push: id });
  await pushes.updateOne({ _id: id }, { $unset: { ending: true } });
}

/**
 * Finds the pushes that are delivered to all. Each step of a delivery stores the next responsible document before it
 * closes its own. So reading in the same order misses none: pushes (before the call), batches, inbox rows.
 */
async function findAllDelivered(
  tables: Tables,
  found: readonly CheckedPush[],
): Promise<Pick<PushDocument, '_id' | 'work' | 'notify'>[]> {
  const closedPushes = found.filter(
    (push) =>
      push.ending === undefined &&
      push.state === 'open' &&
      !hasSendTimeEnded(tables, push) &&
      push.fan.done &&
      (push.work === undefined || push.work.state === 'closed'),
  );
  if (closedPushes.length === 0) return [];
  const ids = closedPushes.map(({ _id }) => _id);
  const pushesWithOpenBatches = new Set(
    await tables.batches.distinct('push', { push: { $in: ids }, 'work.state': UNCLOSED }),
  );
  const pushesWithoutOpenBatches = ids.filter((id) => !pushesWithOpenBatches.has(id));
  if (pushesWithoutOpenBatches.length === 0) return [];
  const pendingPushes = new Set(
    await tables.inbox.distinct('push', { push: { $in: pushesWithoutOpenBatches } }),
  );
  const delivered = pushesWithoutOpenBatches.filter((id) => !pendingPushes.has(id));
  if (delivered.length === 0) return [];
  // Read again: a receipt may have been recorded, and its row removed, since the pushes were read.
  return tables.pushes
    .find(
      { _id: { $in: delivered } },
      { projection: { work: 1, ...NOTIFY_FIELDS }, batchSize: delivered.length + 1 },
    )
    .toArray();
}
