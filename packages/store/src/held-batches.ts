import { createBatcher } from '@carillon/core/batcher';
import type { Channel } from '@carillon/core/channels';
import { Binary, type Collection, type Document } from 'mongodb';
import {
  type BatchHolder,
  type BatchHolders,
  FAST_WRITE,
  runPerCollection,
} from './batch-holders.ts';
import { setPerDocument } from './bulk-set.ts';
import { packUint32s } from './bytes.ts';
import { fromNow } from './clock.ts';
import type { DeferredEntry, ProviderErrorEntry, TriedRecipient } from './documents.ts';
import { buildFailureMark, findFailures } from './failure-mark.ts';
import { buildReleasedCount } from './lapsed-claims.ts';
import { NOTIFY_MARK } from './notify-mark.ts';

/** Number of lapsed claims after a save: the claim that saves does not count when it ends without a release. */
const LAPSED_AFTER_SAVE = -1;

/** A batch and the claim under which a worker writes to it. */
interface HeldBatch {
  id: string;
  claim: string;
  /** Events of the batch are reported to webhooks. */
  notify?: true;
}

/** Progress of a batch that a worker still holds. */
export interface UnfinishedBatch extends Pick<HeldBatch, 'id' | 'claim'> {
  /** Codes of core/outcomes, one for each recipient. */
  outcomes: Uint8Array;
  /** Milliseconds to each receipt, 0 unknown. */
  latenciesMs: Uint32Array;
  /** Errors that a provider returned for recipients that have failed or are gone. */
  words?: ProviderErrorEntry[];
  /** Recipients to retry, and when at the earliest; if absent, they stay as they were saved last. */
  deferred?: DeferredEntry[];
  /** The recipient of a suspected batch that is tried. If absent, the save resets the number of lapsed claims. */
  trying?: TriedRecipient;
  /** The worker was blocked until the lease had ended: the save does not show that the batch makes progress. */
  hasLapsed?: boolean;
}

/** Release of a worker's claim on an unfinished batch. */
interface Release {
  /** Time until the batch is due again. */
  delayMs: number;
  /** The worker was blocked until the lease had ended: the claim counts as lapsed (store/lapsed-claims). */
  hasLapsed?: boolean;
  /** The batch goes on over this channel. */
  channel?: Channel;
}

/** A claim that its worker releases. */
type ClaimRelease = HeldBatch & Release;

/** Creates the writes to a batch whose claim a worker holds. */
export function createHeldBatches(holders: BatchHolders) {
  const releaseBatched = createBatcher<ClaimRelease, boolean>(
    'release-batch',
    (releases) => runPerCollection(releases, (id, group) => releaseAll(holders.of(id), group)),
    { maxBatchSize: 200 },
  );

  return {
    /**
     * Releases the claim on an unfinished batch. The batch is due again after `delayMs`, or at once if `retryNow` was
     * called meanwhile. Concurrent releases share round trips.
     *
     * @returns false if another worker holds or has closed the batch
     */
    releaseClaim: ({ id, claim, notify }: HeldBatch, release: Release): Promise<boolean> =>
      releaseBatched({ id, claim, ...release, ...(notify && { notify }) }),

    /**
     * Saves the outcomes so far of a batch that is still being worked on, so that a worker that takes over repeats few.
     *
     * @returns false if the claim was lost and nothing was written
     */
    async saveOutcomes(batch: UnfinishedBatch): Promise<boolean> {
      const { id, outcomes, latenciesMs, deferred, words = [], trying, hasLapsed = false } = batch;
      const progress = {
        'work.outcomes': new Binary(outcomes),
        ...(deferred !== undefined && { 'work.later': deferred }),
        ...(trying !== undefined && { 'work.trying': trying }),
        ...(trying === undefined && !hasLapsed && { 'work.lapsed': LAPSED_AFTER_SAVE }),
        ...(words.length > 0 && { 'work.words': words }),
        // Only a connected device gives one: for most batches nothing is stored.
        ...(latenciesMs.some((ms) => ms > 0) && {
          'work.ms': new Binary(packUint32s(latenciesMs)),
        }),
      };
      const { matchedCount } = await holders
        .of(id)
        .updateOne(claimFilter(batch), buildProgressUpdate(progress, findFailures(id, outcomes)));
      return matchedCount === 1;
    },
  };
}

/** Matches a batch while its claim holds. */
function claimFilter({ id, claim }: Pick<HeldBatch, 'id' | 'claim'>) {
  return { _id: id, 'work.claim': claim, 'work.state': 'ready' as const };
}

/** Releases claims of one collection. Returns for each whether no other worker has the batch. */
async function releaseAll(
  collection: Collection<BatchHolder>,
  releases: readonly ClaimRelease[],
): Promise<boolean[]> {
  const groups = Map.groupBy(releases, ({ notify = false, channel }) => `${notify} ${channel}`);
  const counts = await Promise.all(
    [...groups.values()].map((group) => releaseGroup(collection, group)),
  );
  if (counts.reduce((sum, count) => sum + count) === releases.length)
    return releases.map(() => true);
  const ids = releases.map(({ id }) => id);
  const unclaimed = { 'work.state': 'ready' as const, 'work.claim': { $exists: false } };
  const found = await collection
    .find({ _id: { $in: ids }, ...unclaimed }, { projection: { _id: 1 } })
    .toArray();
  const releasedIds = new Set(found.map(({ _id }) => _id));
  return ids.map((id) => releasedIds.has(id));
}

/**
 * Releases claims of one collection, and returns how many held. Events of all of these batches are reported to
 * webhooks, or of none; all get the same channel, or keep theirs.
 */
async function releaseGroup(
  collection: Collection<BatchHolder>,
  releases: readonly ClaimRelease[],
): Promise<number> {
  const claims = releases.map(({ claim }) => claim);
  const { notify: isReported = false, channel } = releases[0] ?? {};
  const filter = {
    _id: { $in: releases.map(({ id }) => id) },
    'work.claim': { $in: claims },
    'work.state': 'ready' as const,
  };
  const update = [
    ...setPerDocument('$work.claim', claims, (pick) => ({
      'work.at': {
        $cond: ['$work.hurried', '$$NOW', fromNow(pick(releases.map(({ delayMs }) => delayMs)))],
      },
      'work.lapsed': buildReleasedCount(pick(releases.map(({ hasLapsed = false }) => hasLapsed))),
      ...(channel !== undefined && { 'work.channel': channel }),
      // The outcomes so far are reported to webhooks: the batch may wait for its retry for hours.
      ...(isReported && { notify: NOTIFY_MARK }),
    })),
    { $unset: ['work.claim', 'work.reply', 'work.before', 'work.hurried'] },
  ];
  const { matchedCount } = await collection.updateMany(
    filter,
    update,
    isReported ? {} : FAST_WRITE,
  );
  return matchedCount;
}

/** Builds the update that saves progress; one with failed recipients also lists the batch among the failures. */
function buildProgressUpdate(progress: Document, failures: number): Document {
  if (failures === 0) return { $set: progress };
  const literals = Object.entries(progress).map(([name, value]) => [name, { $literal: value }]);
  return [
    { $set: { ...Object.fromEntries(literals), ...buildFailureMark({ $literal: failures }) } },
  ];
}
