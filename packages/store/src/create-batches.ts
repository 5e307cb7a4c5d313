import { type BatchState, hashToken, joinTokens } from '@carillon/core/batch';
import type { Channel } from '@carillon/core/channels';
import { batchId } from '@carillon/core/ids';
import { LIMITS } from '@carillon/core/limits';
import type { Batch, BatchDocument, DeviceKeys, PushDocument } from './documents.ts';
import { batchEntries } from './notify-mark.ts';

/**
 * Maximum recipients of a batch that has a hash for each of them. Each hash is an index key of its own: the write that
 * accepts a push takes longer with each, and MongoDB makes all keys of a document again when one of its indexed fields
 * changes, as in a claim.
 */
export const MAX_HASHED_RECIPIENTS = 20;

/**
 * Creates the fields of a push that holds its only batch, of at most {@link LIMITS.batchRecipients} recipients. They are
 * sorted: a recipient's index in the sorted list is its position in outcomes and receipts.
 */
export function createEmbeddedBatch(
  channel: Channel,
  tokens: readonly string[],
  state: BatchState,
  at: Date,
): Required<Pick<PushDocument, 'work'>> & DeviceKeys {
  const sorted = [...tokens].sort();
  return { work: createSortedBatch(channel, sorted, state, at), ...createDeviceKeys(sorted) };
}

function createDeviceKeys(sorted: readonly string[]): DeviceKeys {
  return sorted.length <= MAX_HASHED_RECIPIENTS
    ? { tokenHashes: sorted.map(hashToken) }
    : { firstToken: sorted.at(0) ?? '', lastToken: sorted.at(-1) ?? '' };
}

function createSortedBatch(
  channel: Channel,
  tokens: readonly string[],
  state: BatchState,
  at: Date,
): Batch {
  return { state, channel, at, tries: 0, n: tokens.length, tokens: joinTokens(tokens) };
}

/**
 * Creates the document of a batch; `tokens` are sorted.
 *
 * @param at since when the batch is pending, and from when it may be claimed. A ready batch must be due at once, or its
 *   job finds nothing to claim: `at` is a time that MongoDB's clock has passed already.
 */
export function createBatchDocument(
  push: Pick<PushDocument, '_id' | 'app' | 'notify'>,
  channel: Channel,
  tokens: readonly string[],
  sequence: number,
  state: 'waiting' | 'ready',
  at: Date,
): BatchDocument {
  return {
    _id: batchId(push._id, sequence),
    push: push._id,
    app: push.app,
    from: tokens[0] ?? '',
    to: tokens.at(-1) ?? '',
    work: createSortedBatch(channel, tokens, state, at),
    ...createDeviceKeys(tokens),
    ...batchEntries(push.notify),
  };
}

/** Counts the batches of {@link splitIntoBatches}. */
export function countBatches(byChannel: ReadonlyMap<Channel, readonly string[]>): number {
  let count = 0;
  for (const { length } of byChannel.values()) count += Math.ceil(length / LIMITS.batchRecipients);
  return count;
}

/**
 * Splits recipients into waiting batches, each of one channel, numbered from 0. A batch is made when it is asked for.
 *
 * @param byChannel the tokens of each channel, sorted, so that each is in the range of one batch only
 * @param notBefore earliest time at which the push may be sent; a release replaces it by its own time
 */
export function* splitIntoBatches(
  push: Pick<PushDocument, '_id' | 'app' | 'notify'>,
  byChannel: ReadonlyMap<Channel, readonly string[]>,
  notBefore: Date,
): Generator<BatchDocument> {
  let sequence = 0;
  for (const [channel, tokens] of byChannel) {
    for (let from = 0; from < tokens.length; from += LIMITS.batchRecipients) {
      const batchTokens = tokens.slice(from, from + LIMITS.batchRecipients);
      yield createBatchDocument(push, channel, batchTokens, sequence, 'waiting', notBefore);
      sequence += 1;
    }
  }
}
