import { types } from 'node:util';
import { TimeoutError, withTimeout } from '@carillon/core/with-timeout';
import { isOutage, isTimeLimit } from '@carillon/store/mongo-errors';
import { DeadlineExceededError } from '../http/deadlines.ts';

/** Timeout of the lookup of a device, after which its check fails. Shorter than the deadline of a request. */
export const LOOKUP_TIMEOUT_MS = 2_000;
/**
 * Timeout of a ping, which takes some milliseconds. Together with the time that makes a request slow, it is shorter
 * than a request's deadline.
 */
const PING_TIMEOUT_MS = 1_000;
/** Time after a database failure during which no new device is registered. */
const HEALTHY_AFTER_MS = 60_000;

/** Records database outages and reports whether the last one is long enough ago. */
export type OutageWatch = ReturnType<typeof createOutageWatch>;

/**
 * Creates the outage watch of a process. The official SDKs register again after any failed credential check, unless
 * registering fails too. So a process that saw an outage rejects registrations for a while: an outage, however short,
 * must not replace device tokens (guarantee G15). An error that only one request causes is not an outage: otherwise
 * one device or one tenant could close registration for all.
 *
 * @param ping resolves when MongoDB responds, over connections that neither tenants alone nor devices alone can occupy
 */
export function createOutageWatch(ping: () => Promise<void>) {
  let lastOutageAt = Number.NEGATIVE_INFINITY;
  let isAsking = false;

  function noteFailure(error: unknown): void {
    const isTimeout = error instanceof TimeoutError;
    if (isTimeout || isOutage(error) || isSystemError(error)) lastOutageAt = performance.now();
  }

  /** Records an outage unless MongoDB responds in time. */
  async function askMongodb(): Promise<void> {
    if (isAsking) return;
    isAsking = true;
    await withTimeout(ping(), PING_TIMEOUT_MS, 'MongoDB').catch(noteFailure);
    isAsking = false;
  }

  return {
    /**
     * Records a failed lookup of a device. Nobody can make it slow by its request, so a timeout is an outage. The driver
     * passes system errors of its sockets through unchanged.
     */
    noteFailure,
    /**
     * Records an unexpected error of a request. A system error may come from the client's own socket and does not
     * count. A timeout may be due to the request itself: a tenant's statement that reads much, or an address that many
     * devices claim. It counts only if MongoDB does not respond.
     */
    noteUnexpectedError(error: unknown): void {
      const isTimeout = error instanceof DeadlineExceededError || error instanceof TimeoutError;
      if (isTimeout || isTimeLimit(error)) void askMongodb();
      else if (isOutage(error)) noteFailure(error);
    },
    /** A slow request may be the first sign of an outage, and nobody else may notice one that is over before it is late. */
    noteSlowRequest: (): void => void askMongodb(),
    /** Returns false for 60 s after an outage. */
    isHealthy: (): boolean => performance.now() - lastOutageAt > HEALTHY_AFTER_MS,
  };
}

function isSystemError(error: unknown): boolean {
  return types.isNativeError(error) && 'syscall' in error;
}
