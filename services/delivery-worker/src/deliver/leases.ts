import type { ClaimedWork } from '@carillon/store/work-table';

/** A claim gives this long to work; renewed three times within it. */
const LEASE_MS = 6_000;
const RENEW_EVERY_MS = 2_000;
/** Nothing is sent when the lease has less than this left: the other side must not act in the same moment. */
const MARGIN_MS = 1_000;

/** The store's side of claims. */
export interface ClaimStore {
  claim(id: string, reply: string, leaseMs: number): Promise<ClaimedWork | undefined>;
  renew(held: readonly { id: string; claim: string }[], leaseMs: number): Promise<void>;
}

/** Work held by this process. */
export interface HeldWork extends ClaimedWork {
  /** Whether the lease surely still lasts, by the monotonic clock, measured from before the claim was sent. */
  isSafe(): boolean;
  /** When it was claimed at the earliest, by the monotonic clock. */
  claimedAt: number;
}

/** Claims work and keeps its leases alive with one renewal for all that the process holds. */
export function createLeases(store: ClaimStore, reply: string, onError: (error: unknown) => void) {
  const held = new Map<string, { work: ClaimedWork; until: number }>();

  async function renewAll(): Promise<void> {
    const works = [...held.values()];
    if (works.length === 0) return;
    const before = performance.now();
    await store.renew(
      works.map(({ work }) => work),
      LEASE_MS,
    );
    // A claim that was lost meanwhile is not renewed by the store; its next conditional write tells.
    for (const one of works) one.until = before + LEASE_MS;
  }
  const timer = setInterval(() => void renewAll().catch(onError), RENEW_EVERY_MS);

  return {
    /** Takes due work; undefined when there is nothing to take. */
    async take(id: string): Promise<HeldWork | undefined> {
      const before = performance.now();
      const work = await store.claim(id, reply, LEASE_MS);
      if (work === undefined) return undefined;
      const entry = { work, until: before + LEASE_MS };
      held.set(work.claim, entry);
      const isSafe = () => performance.now() < entry.until - MARGIN_MS;
      return { ...work, isSafe, claimedAt: before };
    },
    /** Forgets work that was settled, given back or lost. */
    drop: (work: Pick<ClaimedWork, 'claim'>): void => void held.delete(work.claim),
    stop: (): void => clearInterval(timer),
  };
}
