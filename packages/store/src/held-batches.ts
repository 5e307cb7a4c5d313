import { toBitWords } from '@carillon/core/batch';
import { Binary, type Document } from 'mongodb';
import { type BatchHolders, FAST_WRITE } from './batch-holders.ts';
import { packUint32s } from './bytes.ts';
import { fromNow } from './clock.ts';
import type { DeferredEntry, ProviderErrorEntry } from './documents.ts';
import { buildFailureMark, findFailures } from './failure-mark.ts';
import { buildReleasedCount, type LapseRule } from './lapsed-claims.ts';
import { NOTIFY_MARK } from './notify-mark.ts';

/** The claim that saves does not count as lapsed when it ends without a release. */
const LAPSED_AFTER_SAVE = -1;

/** A batch and the claim under which a worker writes to it. */
interface HeldBatch {
  id: string;
  claim: string;
  /** Webhooks are told of the batch. */
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
  /** Recipients to retry, and when at the earliest. */
  deferred: DeferredEntry[];
  /** Lapsed claims of a batch that is processed alone; absent: the save resets their number. */
  lapsed?: number | 'unchanged';
}

/** How a worker releases its claim on an unfinished batch. */
interface Release extends LapseRule {
  /** Time until the batch is due again. */
  delayMs: number;
  /** Receipts that the worker has waited for. */
  received?: ReceiptsSoFar;
}

/** Receipts that a worker has waited for. */
export interface ReceiptsSoFar {
  positions: readonly number[];
  /** Milliseconds to each receipt of the batch, 0 unknown. */
  latenciesMs: Uint32Array;
}

const NO_RECEIPTS: ReceiptsSoFar = { positions: [], latenciesMs: new Uint32Array(0) };

/** Creates the writes to a batch whose claim a worker holds. */
export function createHeldBatches(holders: BatchHolders) {
  return {
    /**
     * Releases the claim on an unfinished batch and records the receipts that the worker has. The batch is due again
     * after `delayMs`, or at once if `retryNow` was called meanwhile. A claim whose lease has ended counts as lapsed
     * (store/lapsed-claims). False: the claim was lost and nothing was written.
     */
    async releaseClaim(
      batch: HeldBatch,
      { delayMs, received = NO_RECEIPTS, ...lapseRule }: Release,
    ): Promise<boolean> {
      const { positions, latenciesMs } = received;
      const collection = holders.of(batch.id);
      if (positions.length > 0) {
        const words = [...toBitWords(positions)].map(([word, bits]) => [
          `work.got.${word}`,
          { or: bits },
        ]);
        await collection.updateOne(claimFilter(batch), {
          $bit: Object.fromEntries(words),
          $set: { 'work.ms': new Binary(packUint32s(latenciesMs)) },
        });
      }
      const { matchedCount } = await collection.updateOne(
        claimFilter(batch),
        buildRelease(delayMs, batch.notify === true, lapseRule),
      );
      return matchedCount === 1;
    },

    /**
     * Marks a claim as that of a worker that processes nothing else from now on. If it lapses, it counts
     * (store/lapsed-claims). False: the claim was lost.
     */
    async markAlone(batch: Pick<HeldBatch, 'id' | 'claim'>): Promise<boolean> {
      const { matchedCount } = await holders
        .of(batch.id)
        .updateOne(claimFilter(batch), { $set: { 'work.alone': batch.claim } }, FAST_WRITE);
      return matchedCount === 1;
    },

    /**
     * Saves the outcomes so far of a batch that is still being worked on, so that a worker that takes over repeats few.
     * False: the claim was lost and nothing was written.
     */
    async saveOutcomes(batch: UnfinishedBatch): Promise<boolean> {
      const { id, outcomes, latenciesMs, deferred, words = [] } = batch;
      const { lapsed = LAPSED_AFTER_SAVE } = batch;
      const progress = {
        'work.outcomes': new Binary(outcomes),
        'work.later': deferred,
        ...(lapsed !== 'unchanged' && { 'work.lapsed': lapsed }),
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
  return { _id: id, 'work.claim': claim, 'work.state': 'ready' } as const;
}

function buildRelease(delayMs: number, isReported: boolean, lapseRule: LapseRule): Document[] {
  return [
    {
      $set: {
        'work.at': { $cond: ['$work.hurried', '$$NOW', fromNow(delayMs)] },
        'work.lapsed': buildReleasedCount(lapseRule),
        // Webhooks are told of the outcomes so far: the batch may wait for its retry for hours.
        ...(isReported && { notify: NOTIFY_MARK }),
      },
    },
    { $unset: ['work.claim', 'work.reply', 'work.before', 'work.hurried'] },
  ];
}

/** Builds the update that saves progress; one with failed recipients also lists the batch among the failures. */
function buildProgressUpdate(progress: Document, failures: number): Document {
  if (failures === 0) return { $set: progress };
  const literals = Object.entries(progress).map(([name, value]) => [name, { $literal: value }]);
  return [
    { $set: { ...Object.fromEntries(literals), ...buildFailureMark({ $literal: failures }) } },
  ];
}
