import type { SendingView } from '@carillon/store/pushes';
import type { HeldWork } from './leases.ts';

/** A recipient whom a provider has put off. */
export interface PutOff {
  /** Not to be tried earlier, milliseconds since 1970. */
  untilMs: number;
  /** How often it was put off by now. */
  times: number;
}

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
   * @param later whom the provider has put off, by position
   */
  save(later: ReadonlyMap<number, PutOff>): Promise<void>;
}

/**
 * One of our ways out. Works off what is open and notes outcomes. It returns when it has done what it can:
 * `done`, or the time after which the rest is to be tried again.
 */
export type DeliverByChannel = (
  delivery: Delivery,
) => Promise<{ done: true } | { done: false; retryAfterMs: number }>;
