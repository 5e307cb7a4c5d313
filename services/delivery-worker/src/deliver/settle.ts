import { isBatchId } from '@carillon/core/ids';
import { OUTCOMES } from '@carillon/core/outcomes';
import { hasBit, splitTokens } from '@carillon/core/work';
import { rowId } from '@carillon/store/inbox';
import type { SendingView } from '@carillon/store/pushes';
import type { Settlement } from '@carillon/store/work-table';
import type { HeldWork } from './leases.ts';

/** What settling needs. */
export interface SettleDeps {
  settle(settlement: Settlement): Promise<{ got: Record<string, number> } | undefined>;
  removeRows(push: string, rowIds: readonly string[]): Promise<void>;
  addFinishJob(push: string): Promise<void>;
  finishedPurgeAt(): Date;
}

/**
 * Closes work for good, then removes the rows of recipients whose receipt came meanwhile, and of those that this
 * try reached although an earlier one had written a row. Nothing is removed when the claim was lost.
 */
export async function settleWork(
  deps: SettleDeps,
  push: SendingView,
  settlement: Settlement,
  work: HeldWork,
): Promise<void> {
  const { outcomes } = settlement;
  const isWhole = !isBatchId(work.id) && !outcomes.includes(OUTCOMES.inbox);
  const closed = await deps.settle({
    ...settlement,
    ...(isWhole && push.state === 'open' && { finish: { purgeAt: deps.finishedPurgeAt() } }),
  });
  if (closed === undefined) return;
  const wasRetried = work.work.tries > 1;
  const surplus = splitTokens(work.work.tokens).filter((_, position) =>
    outcomes[position] === OUTCOMES.inbox
      ? hasBit(closed.got, position)
      : wasRetried && outcomes[position] === OUTCOMES.delivered,
  );
  const collapse = push.collapse === undefined ? {} : { collapse: push.collapse };
  await deps.removeRows(
    push._id,
    surplus.map((token) => rowId({ token, push: push._id, ...collapse })),
  );
  if (!isWhole && mayBeOver(work, outcomes, closed.got)) void deps.addFinishJob(push._id);
}

/**
 * Whether the push may have come to its end by this: a device that has a row has its push looked at when the row
 * goes, unless its receipt came before the work was closed.
 */
function mayBeOver({ id }: HeldWork, outcomes: Uint8Array, got: Record<string, number>): boolean {
  if (isBatchId(id)) return true;
  return outcomes.every((code, position) => code !== OUTCOMES.inbox || hasBit(got, position));
}
