import { newClaimId } from '@carillon/core/ids';
import { startInterval } from '@carillon/core/intervals';
import { TTL_SECONDS } from './keys.ts';
import type { PresenceServer } from './presence-server.ts';

const RENEW_INTERVAL_MS = 3_000;

/** Lease of a gateway's identity. */
export type Lease = ReturnType<typeof createLease>;

/**
 * Acquires an identity and renews its lease every 3 s. An expired lease (Redis flushed, process frozen) can't be
 * renewed, because workers saw its devices as offline meanwhile: a new identity is acquired instead.
 *
 * @param on.credit returns the number of recipients that the gateway accepts now
 * @param on.renewed is called after each renewal
 * @param on.identityChanged is called with a new identity; devices registered under the former one are offline
 */
export function createLease(
  { redis, keys }: Pick<PresenceServer, 'redis' | 'keys'>,
  on: { credit(): number; renewed(): void; identityChanged(): void },
) {
  let id: string | undefined;
  let isReleased = false;
  let lastProgressAt = performance.now();
  let inFlight: Promise<void> | undefined;

  async function renewCurrent(currentId: string): Promise<boolean> {
    const results = await redis
      .pipeline()
      .set(keys.lease(currentId), on.credit(), 'EX', TTL_SECONDS.lease, 'XX')
      .expire(keys.gatewayStream(currentId), TTL_SECONDS.lease)
      .exec();
    for (const [error] of results ?? []) if (error) throw error;
    return results?.[0]?.[1] === 'OK' && results[1]?.[1] === 1;
  }

  async function acquire(): Promise<void> {
    const newId = newClaimId();
    // The stream must exist before the lease is visible, because workers don't create it (NOMKSTREAM).
    const results = await redis
      .pipeline()
      .xadd(keys.gatewayStream(newId), '*', 'begin', '')
      .expire(keys.gatewayStream(newId), TTL_SECONDS.lease)
      .set(keys.lease(newId), on.credit(), 'EX', TTL_SECONDS.lease)
      .exec();
    for (const [error] of results ?? []) if (error) throw error;
    if (isReleased) return;
    id = newId;
    on.identityChanged();
  }

  async function renewOrAcquire(): Promise<void> {
    if (id === undefined || !(await renewCurrent(id))) await acquire();
    lastProgressAt = performance.now();
    on.renewed();
  }

  /**
   * Renews at once, for instance after the credit changed. One renewal runs at a time: two that both miss the lease would
   * acquire two identities.
   */
  async function renew(): Promise<void> {
    // A renewal in progress may have sent an outdated credit.
    await inFlight?.catch(() => undefined);
    if (isReleased) return;
    inFlight ??= renewOrAcquire().finally(() => {
      inFlight = undefined;
    });
    await inFlight;
  }

  // While Redis is unavailable workers can't see the lease either; the next renewal finds its state.
  const renewInBackground = (): void => void renew().catch(() => undefined);
  const stopRenewing = startInterval(renewInBackground, RENEW_INTERVAL_MS);
  renewInBackground();

  return {
    /** Returns the current identity; undefined until Redis is first reached. */
    id: (): string | undefined => id,
    renew,
    /** Returns the time of the last renewal by the monotonic clock (`performance.now()`). */
    lastProgressAt: (): number => lastProgressAt,
    /** Deletes the lease, so that workers see the gateway as stopped at once. */
    async release(): Promise<void> {
      isReleased = true;
      stopRenewing();
      if (id !== undefined) await redis.del(keys.lease(id), keys.gatewayStream(id)).catch(() => 0);
    },
  };
}
