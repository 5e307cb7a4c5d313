/** Forms of an HTTP date: IMF-fixdate, RFC 850 and asctime (RFC 9110, 5.6.7). Date.parse takes much more for a date. */
const HTTP_DATE =
  /^[A-Z][a-z]{2,8},? (?:\d{2} [A-Z][a-z]{2} \d{4}|\d{2}-[A-Z][a-z]{2}-\d{2}|[A-Z][a-z]{2} [ \d]\d) /;
/** Most digits of seconds that fit a number; more are as long a wait. */
const MAX_DIGITS = 12;

/**
 * Parses a Retry-After header: seconds or a date (RFC 9110, 10.2.3).
 *
 * @returns milliseconds, 0 for a date that has passed; undefined without a valid header
 */
export function parseRetryAfterMs(header: unknown, nowMs: number): number | undefined {
  if (typeof header !== 'string') return undefined;
  if (/^\d+$/.test(header)) return Number(header.slice(0, MAX_DIGITS)) * 1_000;
  const retryAtMs = HTTP_DATE.test(header) ? Date.parse(header) : Number.NaN;
  return Number.isNaN(retryAtMs) ? undefined : Math.max(0, retryAtMs - nowMs);
}
