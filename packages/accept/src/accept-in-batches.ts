import { ApiError } from '@carillon/core/api-error';
import type { Channel } from '@carillon/core/channels';
import { failpoint } from '@carillon/core/failpoint';
import { sortInParts } from '@carillon/core/in-parts';
import { countBatches, splitIntoBatches } from '@carillon/store/create-batches';
import type { BatchDocument, PushDocument } from '@carillon/store/documents';
import type { Store } from '@carillon/store/store';

/** Interval between lease renewals while batches are written; the lease lasts several intervals. */
const RENEW_INTERVAL_MS = 750;

/**
 * Stores the recipients first and then changes the push's state conditionally: that change is the commit. A process
 * that dies before it leaves a push in `accepting`, for which no client got a 200. A repeated request abandons that
 * push once its lease has run out, the scheduler after a minute.
 *
 * @param notBefore earliest time at which the push may be sent
 * @param assertAwaited throws before the commit if no client waits for the result any more
 * @returns the earlier push with the same idempotency key, if there is one; then nothing is stored
 * @throws ApiError INTERNAL_SERVER_ERROR if the push was abandoned meanwhile
 */
export async function acceptInBatches(
  store: Pick<Store, 'pushes' | 'batches'>,
  push: PushDocument,
  tokensByChannel: ReadonlyMap<Channel, string[]>,
  notBefore: Date,
  assertAwaited: () => void,
): Promise<PushDocument | undefined> {
  const { state } = push;
  if (state !== 'open' && state !== 'scheduled') throw new Error(`a new push can't be ${state}`);
  push.fan.next = countBatches(tokensByChannel);
  if (push.fan.next === 0) return store.pushes.insert(push);
  const existing = await store.pushes.insert({ ...push, state: 'accepting' });
  if (existing !== undefined) return existing;
  failpoint('accept-batches');
  try {
    const sorted = new Map<Channel, string[]>();
    for (const [channel, tokens] of tokensByChannel) sorted.set(channel, await sortInParts(tokens));
    const batches = splitIntoBatches(push, sorted, notBefore);
    await commitBatches(store, { ...push, state }, batches, assertAwaited);
  } catch (error) {
    // Spares a repeated request the wait for the lease. If MongoDB is unavailable, the scheduler abandons the push.
    void abandonPush(store, push._id).catch(() => undefined);
    throw error;
  }
  return undefined;
}

async function commitBatches(
  store: Pick<Store, 'pushes' | 'batches'>,
  { _id: push, state }: { _id: string; state: 'open' | 'scheduled' },
  batches: Iterable<BatchDocument>,
  assertAwaited: () => void,
): Promise<void> {
  const isComplete = await store.batches.insert(batches, createLeaseRenewal(store, push));
  // A client that has got an error repeats the push.
  if (isComplete) assertAwaited();
  if (isComplete && (await store.pushes.commit(push, state))) return;
  await store.batches.removeAll(push);
  throw new ApiError('INTERNAL_SERVER_ERROR');
}

/** Abandons a push. Removes its batches only if the push can no longer be committed. */
async function abandonPush(store: Pick<Store, 'pushes' | 'batches'>, push: string): Promise<void> {
  if (await store.pushes.abandon(push)) await store.batches.removeAll(push);
}

/**
 * Creates the check that runs before each write of a push in `accepting`: it renews the lease when it is due. The
 * check returns false if the push was abandoned, for instance while this process was frozen.
 */
function createLeaseRenewal({ pushes }: Pick<Store, 'pushes'>, push: string) {
  let renewedAt = performance.now();
  let renewal: Promise<boolean> | undefined;
  async function renew(): Promise<boolean> {
    renewedAt = performance.now();
    return pushes.renewAcceptingLease(push);
  }
  return async () => {
    if (performance.now() - renewedAt > RENEW_INTERVAL_MS) renewal = renew();
    return (await renewal) ?? true;
  };
}
