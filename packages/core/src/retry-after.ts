/** Forms of an HTTP date: IMF-fixdate, RFC 850 and asctime (RFC 9110, 5.6.7). Date.parse takes much more for a date. */
const HTTP_DATES = [
  /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/,
  /^[A-Z][a-z]{5,8}, \d{2}-[A-Z][a-z]{2}-\d{2} \d{2}:\d{2}:\d{2} GMT$/,
  /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/,
];
/** Maximum wait in seconds. A Retry-After may have any number of digits, and many would be Infinity. */
const MAX_SECONDS = 999_999_999_999;

/**
 * Parses a Retry-After header: seconds or a date (RFC 9110, 10.2.3).
 *
 * @returns milliseconds, 0 for a date that has passed; undefined without a valid header
 */
export function parseRetryAfterMs(header: unknown, nowMs: number): number | undefined {
  if (typeof header !== 'string') return undefined;
  if (/^\d+$/.test(header)) return Math.min(Number(header), MAX_SECONDS) * 1_000;
  if (!HTTP_DATES.some((form) => form.test(header))) return undefined;
  // The form of asctime names no zone and is in UTC; Date.parse would take it for local time.
  const retryAtMs = Date.parse(header.endsWith(' GMT') ? header : `${header} GMT`);
  return Number.isNaN(retryAtMs) ? undefined : Math.max(0, retryAtMs - nowMs);
}
