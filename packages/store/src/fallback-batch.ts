import { joinTokens, toBitWords } from '@carillon/core/batch';
import { fallbackBatchId } from '@carillon/core/ids';
import type { BatchDocument } from './documents.ts';

/** Recipients of an MQTT batch that FCM is tried for too. */
interface FallbackRequest {
  /** Id of the MQTT batch, or of the push that holds it. */
  id: string;
  push: string;
  app: string;
  /** Sorted. */
  tokens: readonly string[];
  /** Positions of those without an inbox row, because the inbox was full. */
  full?: readonly number[];
  /** Time from which the batch is due. */
  at: Date;
}

/**
 * Creates the fallback batch of an MQTT batch. Its id follows from that of the batch, so there is one. The inbox rows of the
 * recipients stay, and stay responsible for them.
 */
export function createFallbackBatch({
  id,
  push,
  app,
  tokens,
  full = [],
  at,
}: FallbackRequest): BatchDocument {
  return {
    _id: fallbackBatchId(id),
    push,
    app,
    from: tokens.at(0) ?? '',
    to: tokens.at(-1) ?? '',
    work: {
      ...{ state: 'ready', channel: 'fcm', fallback: true, at, tries: 0 },
      ...{ n: tokens.length, tokens: joinTokens(tokens) },
      ...(full.length > 0 && { full: Object.fromEntries(toBitWords(full)) }),
    },
  };
}
