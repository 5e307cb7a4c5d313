import { INITIAL_LEASE_MS } from '@carillon/core/batch';
import { newClaimId } from '@carillon/core/ids';
import type { Batch, PushDocument } from './documents.ts';

/**
 * The claim that a push to one device is inserted with. It belongs to the worker that takes the push from the list of the
 * open jobs within {@link MAX_TAKE_AGE_MS}: that worker's first write is the settlement. A worker that gets it later claims
 * the batch itself, and anyone can once the lease has ended.
 *
 * The lease begins at the time at which the push was accepted, which the API estimates by MongoDB's clock before the insert.
 * The worker reads nothing: no other worker can claim the batch before the lease ends, and a deletion or an expiry since the
 * insert takes effect as after a read of the same age.
 */
export function claimInitially(batch: Batch, acceptedAt: Date): Batch {
  const at = new Date(acceptedAt.getTime() + INITIAL_LEASE_MS);
  return { ...batch, at, claim: newClaimId(), tries: 1 };
}

/**
 * Age, counted from its acceptance, up to which a worker delivers a push under the initial claim. Its state is recent enough
 * then (the send gate's limit), and an entry that came back with an older Redis is older.
 */
const MAX_TAKE_AGE_MS = 500;
/** Two processes' estimates of MongoDB's clock differ by less, unless that clock was set. */
const CLOCK_TOLERANCE_MS = 50;

/** Checks whether a push of this age in milliseconds, by MongoDB's clock, may be delivered under its initial claim. */
export function mayTakeInitially(ageMs: number): boolean {
  return ageMs > -CLOCK_TOLERANCE_MS && ageMs < MAX_TAKE_AGE_MS;
}

/**
 * Creates the memory of the initial claims that a process has taken: an entry that comes twice is taken once. They are
 * remembered for as long as they may be taken.
 *
 * @returns a function that records a claim, and returns false if it was recorded before
 */
export function createTakenClaims(): (claim: string) => boolean {
  let older = new Set<string>();
  let recent = new Set<string>();
  let rotatedAt = performance.now();
  return (claim) => {
    const now = performance.now();
    if (now - rotatedAt >= MAX_TAKE_AGE_MS + CLOCK_TOLERANCE_MS) {
      older = recent;
      recent = new Set();
      rotatedAt = now;
    }
    if (older.has(claim) || recent.has(claim)) return false;
    recent.add(claim);
    return true;
  };
}

/** Checks whether a batch has the claim that it was inserted with: no worker has stored that it holds it. */
export function isInitialClaim({ claim, reply }: Pick<Batch, 'claim' | 'reply'>): boolean {
  return claim !== undefined && reply === undefined;
}

/** Checks whether a push may be inserted with a claim: sent at once, and not only within seconds. */
export function mayClaimInitially({ dueAt, expiresAt, acceptedAt }: PushDocument): boolean {
  return dueAt === undefined && expiresAt.getTime() - acceptedAt.getTime() > INITIAL_LEASE_MS;
}
