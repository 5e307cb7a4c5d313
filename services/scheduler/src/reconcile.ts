import { failpoint } from '@carillon/core/failpoint';
import { isBatchId, pushIdOfBatch } from '@carillon/core/ids';
import type { Tracer } from '@carillon/core/tracing';
import type { Producers } from '@carillon/queue/producers';
import type { DueBatch } from '@carillon/store/due-batches';
import type { Store } from '@carillon/store/store';

/** Items of each kind read in one tick; the rest waits for the next. */
const ITEMS_PER_TICK = 1_000;
/** Milliseconds since its acceptance for which the job of a first attempt is not regarded as lost: it waits, or was just added. */
const FIRST_JOB_MS = 3_000;
/** Traced pushes that a tick's span links to; the span has no room for more. */
const MAX_LINKS = 500;

/** Items found in one tick, by kind: the names are values of the metric's label `what`. */
export interface ReconcileResult {
  opened: number;
  unparked: number;
  works: number;
  fanOuts: number;
  endings: number;
}

/**
 * Finds pending items in MongoDB without a worker, and adds jobs for them. A job that exists isn't added twice, so
 * a tick costs little while the queues are healthy, and everything that Redis lost comes back within a tick.
 *
 * @param tracer records a span for the due pushes that are opened and one for the jobs that are added, linked to the
 *   pushes' traces; without it no trace is read
 */
export async function reconcile(
  store: Pick<Store, 'pushes' | 'batchTable' | 'fanOuts' | 'pushCompletion' | 'clock'>,
  producers: Pick<Producers, 'deliver' | 'resend' | 'fanOut' | 'terminate'>,
  tracer?: Tracer,
): Promise<ReconcileResult> {
  const { batchTable, fanOuts, pushCompletion } = store;
  const opened = await openDue(store, tracer);
  if (opened > 0) failpoint('opened');
  const unparked = await batchTable.unpark(ITEMS_PER_TICK);
  const startedAt = performance.now();
  const [lostBatches, dueFanOuts, completions] = await Promise.all([
    batchTable.findDue(ITEMS_PER_TICK).then((due) => leaveOutNew(due, store)),
    fanOuts.findDue(ITEMS_PER_TICK),
    pushCompletion.findDue(ITEMS_PER_TICK),
  ]);
  await Promise.all([
    ...[...unparked, ...lostBatches].map((batch) =>
      isEmbeddedOverMqtt(batch)
        ? producers.resend(batch)
        : producers.deliver({ ...batch, isAgain: true }),
    ),
    ...dueFanOuts.map((step) => producers.fanOut({ ...step, isAgain: true })),
    producers.terminate(completions),
  ]);
  if (tracer !== undefined) {
    const batchPushes = lostBatches.map(({ id }) => pushIdOfBatch(id));
    const ids = [...new Set([...batchPushes, ...dueFanOuts.map(({ id }) => id), ...completions])];
    const traces = ids.length > 0 ? await store.pushes.listTraces(ids, MAX_LINKS) : [];
    tracer.recordShared('reconcile', traces, startedAt, { 'carillon.items': ids.length });
  }
  return {
    opened,
    unparked: unparked.length,
    works: lostBatches.length,
    fanOuts: dueFanOuts.length,
    endings: completions.length,
  };
}

function isEmbeddedOverMqtt({ id, channel }: DueBatch): boolean {
  return channel === 'mqtt' && !isBatchId(id);
}

/**
 * Leaves out the first attempts that were accepted just now, whose job is probably not lost. A second job finds its pushes
 * claimed or closed, at the price of another claim.
 */
function leaveOutNew(due: readonly DueBatch[], { clock }: Pick<Store, 'clock'>): DueBatch[] {
  const lostBefore = clock.now() - FIRST_JOB_MS;
  return due.filter(({ isFirstAttempt, at }) => !isFirstAttempt || at.getTime() < lostBefore);
}

/** Opens the scheduled pushes that are due. Returns how many there were. */
async function openDue(
  { pushes }: Pick<Store, 'pushes'>,
  tracer: Tracer | undefined,
): Promise<number> {
  if (tracer === undefined) return pushes.openDue();
  const startedAt = performance.now();
  // An opened push is one of many open ones: the due ones are only known before.
  const traces = await pushes.listDueTraces(MAX_LINKS);
  const opened = await pushes.openDue();
  if (opened > 0) {
    tracer.recordShared('open due pushes', traces, startedAt, { 'carillon.items': opened });
  }
  return opened;
}
