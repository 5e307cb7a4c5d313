import type { SendingView } from '@carillon/store/pushes';
import type { HeldWork } from './leases.ts';

/** What a channel is asked to deliver. */
export interface Delivery {
  push: SendingView;
  work: HeldWork;
  /** The recipients' tokens; the index is the position. */
  tokens: readonly string[];
  /** Positions without an outcome yet. */
  open: ReadonlySet<number>;
  /** Whether a step outward may be taken now: lease safe, push open and read lately (guarantees G6, G8). */
  maySend(): Promise<boolean>;
  /** Notes how a recipient ended. */
  end(position: number, outcome: number): void;
  /**
   * Keeps the outcomes so far, so that whoever takes over repeats few.
   *
   * @param later positions that are to be tried no earlier than at a time, milliseconds since 1970
   */
  save(later: ReadonlyMap<number, number>): Promise<void>;
}

/**
 * One of our ways out. Works off what is open and notes outcomes. It returns when it has done what it can:
 * `done`, or the time after which the rest is to be tried again, and how often that was asked for by now.
 */
export type DeliverByChannel = (
  delivery: Delivery,
) => Promise<{ done: true } | { done: false; retryAfterMs: number; retries?: number }>;
