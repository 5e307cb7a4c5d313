import { isBatchId } from '@carillon/core/ids';
import type { Producers } from '@carillon/queue/producers';
import type { Store } from '@carillon/store/store';

/** Items of each kind read in one tick; the rest waits for the next. */
const ITEMS_PER_TICK = 1_000;

/** Items found in one tick, by kind. */
export interface ReconcileResult {
  opened: number;
  works: number;
  fanOuts: number;
  endings: number;
}

/**
 * Finds pending items in MongoDB that nobody works on, and adds jobs for them. A job that exists isn't added twice, so
 * a tick costs little while the queues are healthy, and everything that Redis lost comes back within a tick.
 */
export async function reconcile(
  { pushes, batchTable, fanOuts, pushCompletion }: Store,
  producers: Producers,
): Promise<ReconcileResult> {
  const opened = await pushes.openDue();
  const [dueBatches, dueFanOuts, completions] = await Promise.all([
    batchTable.findDue(ITEMS_PER_TICK),
    fanOuts.findDue(ITEMS_PER_TICK),
    pushCompletion.findDue(ITEMS_PER_TICK),
  ]);
  await Promise.all([
    ...dueBatches.map(({ id, channel }) =>
      isBatchId(id) || channel !== 'mqtt'
        ? producers.deliver(id, channel)
        : producers.sendEmbedded(id),
    ),
    ...dueFanOuts.map(({ id, seq }) => producers.fanOut(id, { seq })),
    producers.terminate(completions),
  ]);
  return {
    opened,
    works: dueBatches.length,
    fanOuts: dueFanOuts.length,
    endings: completions.length,
  };
}
