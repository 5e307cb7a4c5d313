import type { Producers } from '@carillon/queue/producers';
import type { PushDocument } from '@carillon/store/documents';
import type { Store } from '@carillon/store/store';

/** A due check that runs slightly early finds nothing due, and the push then waits for the next periodic check. */
const DUE_MARGIN_MS = 30;
/** Pushes due later than this are left to the periodic check, so that Redis does not hold a year of delayed jobs. */
const MAX_DUE_JOB_DELAY_MS = 86_400_000;

/** Enqueues a push. A batch for a provider skips the `send` queue, so that a slow provider does not delay it. */
export function enqueuePush(
  producers: Producers,
  { _id, work: batch }: PushDocument,
): Promise<void> {
  if (batch === undefined) return producers.fanOut(_id);
  return batch.channel === 'mqtt'
    ? producers.sendEmbedded(_id)
    : producers.deliver(_id, batch.channel);
}

/** Schedules a check for due pushes at the due time, so that the push does not wait for the periodic check. */
export async function scheduleDueCheck(
  { clock }: Pick<Store, 'clock'>,
  producers: Producers,
  dueAtMs: number,
): Promise<void> {
  const delayMs = dueAtMs - clock.now() + DUE_MARGIN_MS;
  if (delayMs < MAX_DUE_JOB_DELAY_MS) await producers.scheduleDueCheck(dueAtMs / 1_000, delayMs);
}
