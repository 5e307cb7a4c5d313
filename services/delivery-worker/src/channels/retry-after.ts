/**
 * Parses a Retry-After header: seconds or a date (RFC 9110, 10.2.3).
 *
 * @returns milliseconds, 0 for a date that has passed; undefined without a valid header
 */
export function parseRetryAfterMs(header: unknown, nowMs: number): number | undefined {
  if (typeof header !== 'string') return undefined;
  if (/^\d{1,9}$/.test(header)) return Number(header) * 1_000;
  const retryAtMs = Date.parse(header);
  return Number.isNaN(retryAtMs) ? undefined : Math.max(0, retryAtMs - nowMs);
}
