import { types } from 'node:util';
import { TimeoutError } from '@carillon/core/with-timeout';
import { isOutage } from '@carillon/store/mongo-errors';
import { DeadlineExceededError } from '../http/deadlines.ts';

/** Time after a database failure during which no new device is registered. */
const HEALTHY_AFTER_MS = 60_000;
const REGISTER_PATH = '/register';

/** Records database outages and reports whether the last one is long enough ago. */
export type OutageWatch = ReturnType<typeof createOutageWatch>;

/**
 * Creates the outage watch of a process. The official SDKs register again after any failed credential check, unless
 * registering fails too. So a process that saw an outage rejects registrations for a while: an outage, however short,
 * must not replace device tokens (guarantee G15). An error that only one request causes is not an outage: otherwise
 * one device could close registration for all.
 */
export function createOutageWatch() {
  let lastOutageAt = Number.NEGATIVE_INFINITY;

  function recordOutageIf(isOutageError: boolean): void {
    if (isOutageError) lastOutageAt = performance.now();
  }

  return {
    /** Records a failed lookup. The driver passes system errors of its sockets through unchanged. */
    noteFailure: (error: unknown): void =>
      recordOutageIf(isDatabaseOutage(error) || isSystemError(error)),
    /**
     * Records an unexpected error of a request. A system error may come from the client's own socket and does not
     * count. A registration that exceeded its deadline does not count: many devices may claim the same address.
     */
    noteUnexpectedError: (error: unknown, path: string): void =>
      recordOutageIf(
        isDatabaseOutage(error) &&
          !(error instanceof DeadlineExceededError && path === REGISTER_PATH),
      ),
    /** Returns false for 60 s after an outage. */
    isHealthy: (): boolean => performance.now() - lastOutageAt > HEALTHY_AFTER_MS,
  };
}

function isDatabaseOutage(error: unknown): boolean {
  const isTimeout = error instanceof DeadlineExceededError || error instanceof TimeoutError;
  return isTimeout || isOutage(error);
}

function isSystemError(error: unknown): boolean {
  return types.isNativeError(error) && 'syscall' in error;
}
