import { isPrivateAddress } from '@carillon/core/client-address';
import { PROXY_WARNINGS, type ProxyWarning } from '@carillon/core/proxy-warnings';
import type { Logger } from './logger.ts';

/** Minimum interval between two records of a warning. */
const RECORD_INTERVAL_MS = 60_000;
/** Minimum interval between two log lines of a warning. */
const LOG_INTERVAL_MS = 3_600_000;
/**
 * Minimum requests in a row with a sign, for peers with a public address. Any client can send a header itself, but
 * behind a proxy every request has it.
 */
const MIN_PUBLIC_STREAK = 100;

/** Warns of proxies that the settings don't name. */
export type ProxyWarner = ReturnType<typeof createProxyWarner>;

/**
 * Creates the warner of a process. A warning is logged at most once an hour and recorded at most once a minute, however
 * many clients cause it; in between it costs a comparison.
 *
 * @param record stores the warning for `carillon doctor`; its errors are ignored, because the next minute repeats it
 * @param now milliseconds of a monotonic clock
 */
export function createProxyWarner(
  { log, record }: { log: Pick<Logger, 'warn'>; record: (warning: ProxyWarning) => Promise<void> },
  now: () => number = () => performance.now(),
) {
  const nextRecordAt = new Map<ProxyWarning, number>();
  const nextLogAt = new Map<ProxyWarning, number>();
  const streaks = new Map<ProxyWarning, number>();

  /** Warns if `isProxy`, which is not called before the warning may be repeated. */
  function warnIf(warning: ProxyWarning, isProxy: () => boolean): void {
    const time = now();
    if (time < (nextRecordAt.get(warning) ?? 0) || !isProxy()) return;
    nextRecordAt.set(warning, time + RECORD_INTERVAL_MS);
    void record(warning).catch(() => undefined);
    if (time < (nextLogAt.get(warning) ?? 0)) return;
    nextLogAt.set(warning, time + LOG_INTERVAL_MS);
    log.warn({ proxy: warning }, PROXY_WARNINGS[warning]);
  }

  return {
    warnIf,
    /** Warns if the address is private. */
    warnIfPrivate: (warning: ProxyWarning, address: string): void =>
      warnIf(warning, () => isPrivateAddress(address)),
    /** Counts a request or connection, with or without a proxy's sign. @param address of the peer */
    observe(warning: ProxyWarning, hasSign: boolean, address: string): void {
      const streak = hasSign ? (streaks.get(warning) ?? 0) + 1 : 0;
      streaks.set(warning, streak);
      if (!hasSign) return;
      warnIf(warning, () => streak >= MIN_PUBLIC_STREAK || isPrivateAddress(address));
    },
  };
}
