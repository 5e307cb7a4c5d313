import { hasBit } from '@carillon/core/batch';
import type { Channel } from '@carillon/core/channels';
import { OUTCOMES } from '@carillon/core/outcomes';
import { countEnds } from '@carillon/core/process-counts';
import { toBytes } from '@carillon/store/bytes';
import type { Batch } from '@carillon/store/documents';

/** Stored outcomes of recipients that are counted with a later one. */
const UNCOUNTED: readonly number[] = [OUTCOMES.pending, OUTCOMES.offered];

/** Outcomes of a batch as a write has stored them. */
interface StoredOutcomes {
  outcomes: Uint8Array;
  latenciesMs: Uint32Array;
}

/** Counts each recipient of a batch once: when its outcome is stored. */
export interface OutcomeCounter {
  /**
   * Counts the recipients that had no outcome before a write. Called once the write has succeeded.
   *
   * @param mayBeReceived checks whether a receipt may still override an outcome: the recipient is counted with a later write
   */
  count(stored: StoredOutcomes, mayBeReceived?: (position: number) => boolean): void;
  /** Checks whether all of these outcomes are stored and counted. */
  hasCounted(outcomes: Uint8Array): boolean;
}

/**
 * Creates the counter for one claim of a batch. The workers of earlier claims have counted the outcomes that they have
 * stored. Recipients of a fallback are not counted: they have their outcome in another batch.
 *
 * @param observeLatencies measures the milliseconds to each receipt, 0 for recipients without one
 */
export function createOutcomeCounter(
  observeLatencies: (channel: Channel, latenciesMs: Uint32Array) => void,
  app: string,
  work: Pick<Batch, 'n' | 'channel' | 'fallback' | 'outcomes' | 'got' | 'gone'>,
): OutcomeCounter {
  const { channel, fallback = false } = work;
  const counted = readCounted(work);

  return {
    count({ outcomes, latenciesMs }, mayBeReceived = () => false) {
      const ended: number[] = [];
      for (const [position, code] of outcomes.entries()) {
        if (code === counted[position]) continue;
        if (code !== OUTCOMES.delivered && mayBeReceived(position)) continue;
        if (UNCOUNTED.includes(counted[position] ?? OUTCOMES.pending)) ended.push(position);
        counted[position] = code;
      }
      if (fallback || ended.length === 0) return;
      const codes = Uint8Array.from(ended, (position) => outcomes[position] ?? OUTCOMES.pending);
      countEnds(app, channel, codes);
      observeLatencies(
        channel,
        Uint32Array.from(ended, (position) => latenciesMs[position] ?? 0),
      );
    },
    hasCounted: (outcomes) => outcomes.every((code, position) => code === counted[position]),
  };
}

/**
 * Reads which recipients are counted, with their outcomes. Over MQTT a receipt without a worker, and the deletion of a
 * device, are counted with the removal of the inbox row.
 */
function readCounted({
  n,
  channel,
  outcomes,
  got = {},
  gone = {},
}: Pick<Batch, 'n' | 'channel' | 'outcomes' | 'got' | 'gone'>): Uint8Array {
  const counted = new Uint8Array(n);
  counted.set(toBytes(outcomes).subarray(0, n));
  if (channel !== 'mqtt') return counted;
  for (let position = 0; position < n; position += 1) {
    if (hasBit(got, position)) counted[position] = OUTCOMES.delivered;
    else if (hasBit(gone, position) && counted[position] === OUTCOMES.pending)
      counted[position] = OUTCOMES.gone;
  }
  return counted;
}
