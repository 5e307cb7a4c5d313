import { batchId } from '@carillon/core/ids';
import { LIMITS } from '@carillon/core/limits';
import type { Channel } from '@carillon/core/platforms';
import { joinTokens, type WorkState } from '@carillon/core/work';
import type { BatchDocument, PushDocument, Work } from './documents.ts';

/**
 * Work for up to a batch's number of recipients, which it sorts: a recipient's position in the sorted list is
 * its place in outcomes and receipts.
 */
export function workOf(
  channel: Channel,
  tokens: readonly string[],
  state: WorkState,
  at: Date,
): Work {
  return { state, channel, at, tries: 0, n: tokens.length, tokens: joinTokens([...tokens].sort()) };
}

/** A batch of a push; `tokens` are sorted. It is due as soon as it is ready. */
export function batchOf(
  push: Pick<PushDocument, '_id' | 'app'>,
  channel: Channel,
  tokens: readonly string[],
  sequence: number,
  state: 'waiting' | 'ready',
): BatchDocument {
  return {
    _id: batchId(push._id, sequence),
    push: push._id,
    app: push.app,
    from: tokens[0] ?? '',
    to: tokens.at(-1) ?? '',
    work: workOf(channel, tokens, state, new Date(0)),
  };
}

/** Splits recipients into waiting batches, each of one channel, numbered from 0. */
export function batchesOf(
  push: Pick<PushDocument, '_id' | 'app'>,
  byChannel: ReadonlyMap<Channel, readonly string[]>,
): BatchDocument[] {
  const batches: BatchDocument[] = [];
  for (const [channel, recipients] of byChannel) {
    // Sorted over all batches, so that one recipient is in the range of one batch only.
    const tokens = [...recipients].sort();
    for (let from = 0; from < tokens.length; from += LIMITS.batchRecipients) {
      const some = tokens.slice(from, from + LIMITS.batchRecipients);
      batches.push(batchOf(push, channel, some, batches.length, 'waiting'));
    }
  }
  return batches;
}
