import { ApiError } from '@carillon/core/api-error';
import { joinTokens } from '@carillon/core/batch';
import { type Channel, channelFor } from '@carillon/core/channels';
import { LIMITS } from '@carillon/core/limits';
import { createBatch, splitIntoBatches } from '@carillon/store/create-batches';
import type { Recipient } from '@carillon/store/devices';
import type { BatchDocument, PushDocument } from '@carillon/store/documents';
import type { Store } from '@carillon/store/store';
import type { Audience } from './resolve-audience.ts';

/** Collections that storing a push writes. */
type PushStore = Pick<Store, 'pushes' | 'batches'>;

/** Interval between lease renewals while batches are written; the lease lasts several intervals. */
const RENEW_INTERVAL_MS = 750;

/**
 * Stores a push with its recipients: in one document if they fit one batch, else in several. Returns the earlier push
 * with the same idempotency key, if there is one; then nothing is stored.
 */
export function storePush(
  store: PushStore,
  push: PushDocument,
  audience: Audience,
): Promise<PushDocument | undefined> {
  const tokensByChannel = groupByChannel(audience.recipients);
  const [onlyGroup] = tokensByChannel;
  const fitsOneBatch =
    tokensByChannel.size === 1 && audience.recipients.length <= LIMITS.batchRecipients;
  if (onlyGroup !== undefined && fitsOneBatch && audience.topics.length === 0) {
    push.work = createBatch(...onlyGroup, 'ready', notBefore(push));
    return store.pushes.insert(push);
  }
  push.fan = { at: notBefore(push), seq: 0, next: 0, done: false };
  return acceptInBatches(store, push, tokensByChannel, audience);
}

function groupByChannel(recipients: readonly Recipient[]): Map<Channel, string[]> {
  const groups = new Map<Channel, string[]>();
  for (const { token, platform } of recipients) {
    const channel = channelFor(platform);
    const group = groups.get(channel);
    if (group === undefined) groups.set(channel, [token]);
    else group.push(token);
  }
  return groups;
}

/** Returns the earliest time at which the push may be sent. */
function notBefore(push: PushDocument): Date {
  return push.dueAt ?? push.acceptedAt;
}

/**
 * Stores the recipients first and then changes the push's state conditionally: that change is the commit. A process
 * that dies before it leaves a push in `accepting`, for which no client got a 200. A repeated request abandons that
 * push once its lease has run out, the scheduler after a minute.
 */
async function acceptInBatches(
  store: PushStore,
  push: PushDocument,
  tokensByChannel: ReadonlyMap<Channel, string[]>,
  audience: Audience,
): Promise<PushDocument | undefined> {
  const { state } = push;
  if (state !== 'open' && state !== 'scheduled') throw new Error(`a new push can't be ${state}`);
  const batches = splitIntoBatches(push, tokensByChannel, notBefore(push));
  push.fan.next = batches.length;
  if (audience.topics.length > 0) {
    const tokens = joinTokens(audience.recipients.map(({ token }) => token));
    push.audience = { topics: audience.topics, tokens };
  }
  if (batches.length === 0) return store.pushes.insert(push);
  const existing = await store.pushes.insert({ ...push, state: 'accepting' });
  if (existing !== undefined) return existing;
  await commitBatches(store, push._id, batches, state).catch((error: unknown) => {
    // Spares a repeated request the wait for the lease. If MongoDB is away, the scheduler abandons the push.
    void abandonPush(store, push._id).catch(() => undefined);
    throw error;
  });
  return undefined;
}

async function commitBatches(
  store: PushStore,
  push: string,
  batches: readonly BatchDocument[],
  state: 'open' | 'scheduled',
): Promise<void> {
  const isComplete = await store.batches.insert(batches, createLeaseRenewal(store, push));
  if (isComplete && (await store.pushes.commit(push, state))) return;
  await store.batches.removeAll(push);
  throw new ApiError('INTERNAL_SERVER_ERROR');
}

/** Abandons a push. Removes its batches only if the push can no longer be committed. */
async function abandonPush(store: PushStore, push: string): Promise<void> {
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
