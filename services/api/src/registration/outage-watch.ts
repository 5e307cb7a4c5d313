import { types } from 'node:util';
import { TimeoutError } from '@carillon/core/with-timeout';
import { isOutage, isPoolExhausted, isTimeout } from '@carillon/store/mongo-errors';
import { DeadlineExceededError } from '../http/deadlines.ts';

/** Time after a database failure during which no new device is registered. */
const HEALTHY_AFTER_MS = 60_000;
const CHECK_PATH = '/devices/auth';

/** Records database outages and reports whether the last one is long enough ago. */
export type OutageWatch = ReturnType<typeof createOutageWatch>;

/**
 * Creates the outage watch of a process. The official SDKs register again after any failed credential check, unless
 * registering fails too. So a process that saw an outage rejects registrations for a while: an outage, however short,
 * must not replace device tokens (guarantee G15). An error that only some requests cause is not an outage: otherwise
 * one device or tenant could close registration for all. So a request that is late makes the process ask the database.
 *
 * @param ping fails if the database does not respond
 */
export function createOutageWatch(ping: () => Promise<void>) {
  let lastOutageAt = Number.NEGATIVE_INFINITY;
  let pinging: Promise<void> | undefined;

  function recordOutage(): void {
    lastOutageAt = performance.now();
  }

  /** Records an outage if the database does not respond. Slow requests that occupy all connections are none. */
  function verify(): Promise<void> {
    pinging ??= ping()
      .catch((error: unknown) => {
        if (!isPoolExhausted(error)) recordOutage();
      })
      .finally(() => {
        pinging = undefined;
      });
    return pinging;
  }

  return {
    /** Records a failed lookup of a device. The driver passes system errors of its sockets through unchanged. */
    noteFailure(error: unknown): void {
      if (isLate(error) || isOutage(error) || isSystemError(error)) recordOutage();
    },
    /**
     * Records an unexpected error of a request. A system error may come from the client's own socket and does not
     * count. Resolves when the database was asked, if it was.
     */
    async noteUnexpectedError(error: unknown, path: string): Promise<void> {
      if (!isLate(error)) {
        if (isOutage(error)) recordOutage();
      } else if (path === CHECK_PATH) recordOutage();
      else await verify();
    },
    /** Returns false for 60 s after an outage. */
    isHealthy: (): boolean => performance.now() - lastOutageAt > HEALTHY_AFTER_MS,
  };
}

function isLate(error: unknown): boolean {
  const isOwn = error instanceof DeadlineExceededError || error instanceof TimeoutError;
  return isOwn || isTimeout(error);
}

function isSystemError(error: unknown): boolean {
  return types.isNativeError(error) && 'syscall' in error;
}
