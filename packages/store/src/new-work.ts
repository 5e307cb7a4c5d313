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

/** Splits recipients into waiting batches, each of one channel, numbered from `firstSequence`. */
export function batchesOf(
  push: Pick<PushDocument, '_id' | 'app' | 'acceptedAt'>,
  byChannel: ReadonlyMap<Channel, readonly string[]>,
  firstSequence = 0,
): BatchDocument[] {
  const batches: BatchDocument[] = [];
  for (const [channel, tokens] of byChannel) {
    for (let from = 0; from < tokens.length; from += LIMITS.batchRecipients) {
      batches.push({
        _id: batchId(push._id, firstSequence + batches.length),
        push: push._id,
        app: push.app,
        work: workOf(
          channel,
          tokens.slice(from, from + LIMITS.batchRecipients),
          'waiting',
          push.acceptedAt,
        ),
      });
    }
  }
  return batches;
}
