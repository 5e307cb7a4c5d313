import { newClaimId } from '@carillon/core/ids';
import { handOverKey, leaseKey, TTL } from './keys.ts';
import type { Redis } from './redis.ts';

const RENEW_MS = 3_000;

/** A gateway's identity: alive as long as its lease is. */
export interface Lease {
  /** The present identity; undefined before the first one, while Redis is away at the start. */
  id(): string | undefined;
  /** Renews at once, for instance when the credit changed much; also the regular beat. */
  renew(): Promise<void>;
  /** Gives the identity up, so that everybody sees it within a moment. */
  end(): Promise<void>;
}

/**
 * Takes an identity and renews it every 3 s. A lease that ran out (Redis emptied, process frozen) can't be
 * renewed, since others saw its devices offline meanwhile: then a new identity is taken.
 *
 * @param on.credit recipients that may be handed over now
 * @param on.beat after each renewal
 * @param on.identity a new identity is there; devices announced under the one before are unknown now
 */
export function createLease(
  redis: Redis,
  on: { credit(): number; beat(): void; identity(): void },
): Lease {
  let id: string | undefined;
  let ended = false;
  let underway: Promise<void> | undefined;

  async function renewPresent(present: string): Promise<boolean> {
    const answers = await redis
      .pipeline()
      .set(leaseKey(present), on.credit(), 'EX', TTL.lease, 'XX')
      .expire(handOverKey(present), TTL.lease)
      .exec();
    for (const [error] of answers ?? []) if (error) throw error;
    return answers?.[0]?.[1] === 'OK' && answers[1]?.[1] === 1;
  }

  async function take(): Promise<void> {
    const fresh = newClaimId();
    // The stream must be there before anybody sees the lease: workers don't create it (NOMKSTREAM).
    const answers = await redis
      .pipeline()
      .xadd(handOverKey(fresh), '*', 'begin', '')
      .expire(handOverKey(fresh), TTL.lease)
      .set(leaseKey(fresh), on.credit(), 'EX', TTL.lease)
      .exec();
    for (const [error] of answers ?? []) if (error) throw error;
    if (ended) return;
    id = fresh;
    on.identity();
  }

  async function renewOrTake(): Promise<void> {
    if (id === undefined || !(await renewPresent(id))) await take();
    on.beat();
  }

  /** One at a time: two that both find the lease gone would take two identities. */
  async function renew(): Promise<void> {
    // One that is under way may tell a credit that has changed since.
    await underway?.catch(() => undefined);
    if (ended) return;
    underway ??= renewOrTake().finally(() => {
      underway = undefined;
    });
    await underway;
  }

  // While Redis is away nobody else can see a lease either; the next beat tells what became of it.
  const beat = (): void => void renew().catch(() => undefined);
  const timer = setInterval(beat, RENEW_MS);
  beat();

  return {
    id: () => id,
    renew,
    async end() {
      ended = true;
      clearInterval(timer);
      if (id !== undefined) await redis.del(leaseKey(id), handOverKey(id)).catch(() => 0);
    },
  };
}
