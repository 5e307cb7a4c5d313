import type { Channel } from '@carillon/core/channels';
import type { Span } from '@carillon/core/tracing';
import type { ClaimedBatch } from '@carillon/store/batch-table';
import type { SendablePush } from '@carillon/store/sendable-push';

/** A batch that this process has claimed. */
export interface LeasedBatch extends ClaimedBatch {
  /**
   * Checks whether the claim was confirmed and its lease is certain to last, by the monotonic clock, measured from
   * before the claim or its renewal was sent. Synchronous, so that no other code runs between the check and a send.
   */
  isLeaseValid(): boolean;
  /**
   * Waits for a renewal if the lease may have ended and the claim is not known to be lost: releasing the batch and
   * claiming it again would cost more than the delivery. Never throws; without a result the lease stays invalid.
   */
  ensureLease(): Promise<void>;
  /** Checks whether another worker may have the batch: a lost claim stays lost. */
  isClaimLost(): boolean;
  /**
   * Checks whether the event loop was blocked, or the process suspended, until the lease had ended. Nothing is sent under the
   * claim afterwards, and it is not renewed: it counts as lapsed (store/lapsed-claims) unless the batch is settled.
   */
  hasLapsed(): boolean;
  /** Records that the store has refused a write of the claim. */
  markClaimLost(): void;
  /** Earliest moment of the claim, by the monotonic clock. */
  claimedAt: number;
}

/** State of a recipient that a provider has deferred. */
export interface Deferral {
  /** Earliest moment of the next attempt, milliseconds since 1970. */
  retryAtMs: number;
  /** Deferrals so far. */
  retries: number;
  /** The provider's last error. */
  providerError?: string;
}

/** One batch to deliver over a channel. */
export interface Delivery {
  push: SendablePush;
  batch: LeasedBatch;
  /** The batch's span, if the push is traced. */
  span: Span | undefined;
  /** The recipients' tokens; the index is the position. */
  tokens: readonly string[];
  /** Positions without an outcome yet. */
  pending: ReadonlySet<number>;
  /** Positions with a request in flight: a newer push of the collapse key doesn't end them meanwhile. */
  inFlight: Set<number>;
  /**
   * Checks whether something may be sent now: lease valid, push open by a recent read (guarantees G6 and G8). Recipients of a
   * newer push of the collapse key have an outcome afterwards (guarantee G9).
   */
  maySend(): Promise<boolean>;
  /** The same check on the known state, without a query: for requests that had to wait since. */
  maySendNow(): boolean;
  /** Returns when the latest read of the push's state was begun, by the monotonic clock. */
  stateReadAt(): number;
  /** Ends recipients of a newer push of the collapse key; a recent result is used again. */
  skipSuperseded(): Promise<void>;
  /**
   * Records the outcome of a recipient.
   *
   * @param providerError the provider's error, when it didn't accept the push
   */
  recordOutcome(position: number, outcome: number, providerError?: string): void;
  /**
   * Records a receipt, which overrides any other outcome.
   *
   * @param ageMs time since it came; 0 by default
   */
  recordReceipt(position: number, ageMs?: number): void;
  /** Marks the batch: receipts of recipients that have another outcome may come after it is closed. */
  expectLateReceipts(): void;
  /** Checks whether a newer push of the collapse key has replaced this one for the recipient. */
  isSuperseded(position: number): boolean;
  /**
   * Waits for the receipts of a channel that is used in parallel, and records them: no recipient is tried again before.
   */
  recordParallelReceipts?(): Promise<void>;
  /**
   * Saves the outcomes so far, so that a worker that takes over repeats few, and counts those that are new.
   *
   * @param deferred recipients that the provider has deferred, by position
   * @param mayBeReceived checks whether a receipt may still override the outcome of a recipient
   */
  save(
    deferred: ReadonlyMap<number, Deferral>,
    mayBeReceived?: (position: number) => boolean,
  ): Promise<void>;
}

/** What a channel leaves of a batch. */
export interface Rest {
  /** Time after which it is tried again. */
  retryAfterMs: number;
  /** Some of its recipients are reached over this channel by now. */
  channel?: Channel;
}

/**
 * Delivers a batch over one channel and records outcomes. Resolves when it can do no more: `done`, or with what is left.
 */
export type DeliverByChannel = (
  delivery: Delivery,
) => Promise<{ done: true } | ({ done: false } & Rest)>;
