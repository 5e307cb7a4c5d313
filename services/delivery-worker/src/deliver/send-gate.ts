import { BATCH_LEASE_MS } from '@carillon/core/batch';
import { OUTCOMES } from '@carillon/core/outcomes';
import type { ClaimedBatch } from '@carillon/store/batch-table';
import type { SendablePush } from '@carillon/store/sendable-push';
import type { Store } from '@carillon/store/store';
import type { Delivery, LeasedBatch } from './channel.ts';

/** Interval between two renewals of the leases. */
const RENEW_INTERVAL_MS = 2_000;
/** Delay of the renewals' timer after which leases may have ended: they are renewed every {@link RENEW_INTERVAL_MS}. */
const BLOCKED_MS = BATCH_LEASE_MS - RENEW_INTERVAL_MS;
/**
 * Minimum rest of the lease for a send. By the lease's end a dispatch has its results, most providers have responded,
 * and the next holder repeats nothing.
 */
const LEASE_MARGIN_MS = 2_000;
/** Maximum age of the push's state when something is sent; above it the state is read again. */
const STATE_REFRESH_AGE_MS = 500;
/** Maximum age of the list of recipients of newer pushes of the collapse key; above it the list is read again. */
const NEWER_RECIPIENTS_REFRESH_AGE_MS = 250;
/** Duration after which a renewal or a read is repeated once: the process may have been suspended meanwhile. */
const LONG_READ_MS = 750;
/** Maximum renewals or reads in a row. */
const MAX_READS = 2;
/** Time within which a gateway may write a delivery to the device's socket. */
const WRITE_DEADLINE_MS = 450;
/**
 * Maximum time from the start of the read of a push's state to a gateway's write, so that nothing is written a second
 * after a deletion (guarantee G8). A slow read leaves less time to write; one of half a second leaves nearly all.
 */
const STATE_MAX_AGE_AT_WRITE_MS = 950;
/** Minimum time left to write. With less the check is repeated: what was read late is read again. */
const MIN_WRITE_MS = 150;
/** Maximum checks until some time is left to write. */
const MAX_CHECKS = 3;

interface Lease {
  batch: ClaimedBatch;
  /** By the monotonic clock, measured from before the claim or its renewal was sent. */
  leaseEndsAt: number;
  isClaimLost: boolean;
  hasLapsed: boolean;
}

function isValid({ isClaimLost, hasLapsed, leaseEndsAt }: Lease): boolean {
  return !isClaimLost && !hasLapsed && performance.now() < leaseEndsAt - LEASE_MARGIN_MS;
}

export type Leases = ReturnType<typeof createLeases>;

/** Claims batches and keeps their leases alive with one renewal for all that the process holds. */
export function createLeases(
  batchTable: Pick<Store['batchTable'], 'claim' | 'renew'>,
  replyStream: string,
  onError: (error: unknown) => void,
) {
  const held = new Map<string, Lease>();
  /** Ids of the batches that are held, or being claimed. */
  const ids = new Set<string>();
  let tickedAt = performance.now();

  /** Checks whether the process did nothing until the lease had ended. An outage of MongoDB is no such reason. */
  function hasLapsed(lease: Lease): boolean {
    const now = performance.now();
    lease.hasLapsed ||= now - tickedAt > BLOCKED_MS && now >= lease.leaseEndsAt;
    return lease.hasLapsed;
  }

  async function renewAll(): Promise<void> {
    // A lapsed claim isn't renewed: the batch may be what has blocked the process.
    const batches = [...held.values()].filter((lease) => !hasLapsed(lease));
    tickedAt = performance.now();
    if (batches.length === 0) return;
    const requestedAt = performance.now();
    const renewed = await batchTable.renew(
      batches.map(({ batch }) => batch),
      BATCH_LEASE_MS,
    );
    for (const entry of batches) {
      if (renewed.has(entry.batch.claim))
        entry.leaseEndsAt = Math.max(entry.leaseEndsAt, requestedAt + BATCH_LEASE_MS);
      else entry.isClaimLost = true;
    }
  }

  /** The latest renewal, until it ends. */
  let renewing: Promise<void> | undefined;
  function renew(): Promise<void> {
    const renewal = renewAll()
      .catch(onError)
      .finally(() => {
        if (renewing === renewal) renewing = undefined;
      });
    renewing = renewal;
    return renewal;
  }
  // One that takes long does not delay the next.
  const timer = setInterval(() => void renew(), RENEW_INTERVAL_MS);

  function hold(batch: ClaimedBatch, claimedAt: number): LeasedBatch {
    const leaseEndsAt = claimedAt + BATCH_LEASE_MS;
    const lease: Lease = { batch, leaseEndsAt, isClaimLost: false, hasLapsed: false };
    held.set(batch.claim, lease);
    const renewOnce = () => renewing ?? renew();
    return { ...batch, ...watchLease(lease, () => hasLapsed(lease), renewOnce), claimedAt };
  }

  return {
    /**
     * Claims a batch that is due; undefined when it can't be claimed. One that the process holds is not claimed again, even if
     * its lease has ended: the new claim would void outcomes that are not written yet, and repeat their requests.
     */
    async claim(id: string): Promise<LeasedBatch | undefined> {
      if (ids.has(id)) return undefined;
      ids.add(id);
      const requestedAt = performance.now();
      let batch: ClaimedBatch | undefined;
      try {
        batch = await batchTable.claim(id, replyStream, BATCH_LEASE_MS);
      } finally {
        if (batch === undefined) ids.delete(id);
      }
      return batch && hold(batch, requestedAt);
    },
    /** Removes a batch that was settled, released or lost. */
    stopRenewing({ id, claim }: Pick<ClaimedBatch, 'id' | 'claim'>): void {
      held.delete(claim);
      ids.delete(id);
    },
    stop: (): void => clearInterval(timer),
  };
}

/** Creates the functions of a batch that tell about its lease. */
function watchLease(lease: Lease, hasLapsed: () => boolean, renew: () => Promise<void>) {
  return {
    isLeaseValid: () => isValid(lease),
    async ensureLease() {
      const mayRenew = () => !lease.isClaimLost && !hasLapsed();
      for (let round = 0; round < MAX_READS && !isValid(lease) && mayRenew(); round += 1)
        await renew();
    },
    isClaimLost: () => lease.isClaimLost,
    hasLapsed,
    markClaimLost() {
      lease.isClaimLost = true;
    },
  };
}

/** A push, and the moment from which its state may be out of date, by the monotonic clock. */
export interface PushSnapshot {
  push: SendablePush;
  readAt: number;
}

/** Checks before each send. */
export type SendGate = ReturnType<typeof createSendGate>;

/** Creates the checks of one batch; recent results are not queried again. */
export function createSendGate(
  {
    store,
    isStopping,
  }: { store: Pick<Store, 'pushes' | 'suspensions' | 'collapse'>; isStopping(): boolean },
  { push, readAt }: PushSnapshot,
  batch: LeasedBatch,
  batchOutcomes: Pick<Delivery, 'tokens' | 'pending' | 'inFlight' | 'recordOutcome'>,
) {
  let currentPush: SendablePush | undefined = push;
  const state = createRefresher(STATE_REFRESH_AGE_MS, readAt, async () => {
    currentPush = (await store.pushes.readForSending([push._id])).get(push._id);
  });
  const newerRecipients = createRefresher(
    NEWER_RECIPIENTS_REFRESH_AGE_MS,
    Number.NEGATIVE_INFINITY,
    () => recordSuperseded(store, push, batchOutcomes),
  );

  /** The same check on the known state, without a query. Nothing of a suspended account or a paused app is sent. */
  function maySendNow(): boolean {
    const isOpen = currentPush !== undefined && store.pushes.isSendable(currentPush);
    return isOpen && batch.isLeaseValid() && store.suspensions.mayDeliver(push.app);
  }
  /** Ends recipients that a newer push of the collapse key is for (guarantee G9), but for those in flight. */
  async function skipSuperseded(): Promise<void> {
    if (push.collapse !== undefined) await newerRecipients.refresh();
  }
  /** Checks whether there is nothing to renew or to read, which is so for most sends. */
  function isUpToDate(): boolean {
    const isStateRecent = batch.isLeaseValid() && state.isRecent();
    return isStateRecent && (push.collapse === undefined || newerRecipients.isRecent());
  }

  return {
    /**
     * Checks whether something may be sent: the lease is valid, and the push open by a recent read (guarantees G6 and G8).
     * Recipients of a newer push of the collapse key have an outcome afterwards.
     */
    async maySend(): Promise<boolean> {
      for (let round = 0; round < MAX_READS && !isStopping(); round += 1) {
        if (isUpToDate()) break;
        await batch.ensureLease();
        // At the same time: with a slow MongoDB the first would be outdated after the second.
        await Promise.all([state.refresh(), skipSuperseded()]);
        // A lease that ended during a slow read is renewed, too.
        if (batch.isLeaseValid() || batch.isClaimLost()) break;
      }
      return !isStopping() && maySendNow();
    },
    maySendNow,
    /** Returns when the latest read of the push's state was begun, by the monotonic clock. */
    stateReadAt: state.readAt,
    skipSuperseded,
  };
}

/**
 * Checks whether the push may be sent, and returns the moment after which no gateway writes it, by the monotonic clock.
 * The time counts from before the last check and from before the read of the push's state, so that a process that is
 * suspended in between gets no fresh deadline.
 *
 * @returns undefined if the push may not be sent
 */
export async function findWriteDeadline(
  delivery: Pick<SendGate, 'maySend' | 'maySendNow' | 'stateReadAt'>,
): Promise<number | undefined> {
  for (let check = 1; await delivery.maySend(); check += 1) {
    const checkedAt = performance.now();
    const latestWriteAt = delivery.stateReadAt() + STATE_MAX_AGE_AT_WRITE_MS;
    if (check < MAX_CHECKS && latestWriteAt - checkedAt < MIN_WRITE_MS) continue;
    if (!delivery.maySendNow()) return undefined;
    return Math.min(checkedAt + WRITE_DEADLINE_MS, latestWriteAt);
  }
  return undefined;
}

async function recordSuperseded(
  { collapse: newerPushes }: Pick<Store, 'collapse'>,
  { _id, app, collapse = '' }: SendablePush,
  batchOutcomes: Pick<Delivery, 'tokens' | 'pending' | 'inFlight' | 'recordOutcome'>,
): Promise<void> {
  const pending = [...batchOutcomes.pending];
  if (pending.length === 0) return;
  const tokenAt = (position: number | undefined) => batchOutcomes.tokens[position ?? -1] ?? '';
  // Positions ascend, and so do their tokens: the query takes the range.
  const [first, last] = [tokenAt(pending[0]), tokenAt(pending.at(-1))];
  const newerTokens = await newerPushes.findNewerRecipients({ _id, app, collapse }, first, last);
  for (const position of pending) {
    const isSuperseded =
      newerTokens.has(tokenAt(position)) && !batchOutcomes.inFlight.has(position);
    if (isSuperseded) batchOutcomes.recordOutcome(position, OUTCOMES.superseded);
  }
}

/** Repeats a read when its last result is too old at the moment of use. */
function createRefresher(refreshAgeMs: number, initialReadAt: number, read: () => Promise<void>) {
  let readAt = initialReadAt;
  let reading: Promise<void> | undefined;

  async function readNow(): Promise<void> {
    const startedAt = performance.now();
    await read();
    readAt = startedAt;
  }
  const isOlderThan = (ageMs: number) => performance.now() - readAt > ageMs;

  return {
    async refresh(): Promise<void> {
      let maxAgeMs = refreshAgeMs;
      for (let round = 0; round < MAX_READS && isOlderThan(maxAgeMs); round += 1) {
        // Many requests of one batch check at the same time.
        reading ??= readNow().finally(() => {
          reading = undefined;
        });
        await reading;
        maxAgeMs = LONG_READ_MS;
      }
    },
    /** Checks whether the last result may be used without a read. */
    isRecent: (): boolean => !isOlderThan(refreshAgeMs),
    /** Returns when the last read was begun. */
    readAt: (): number => readAt,
  };
}
