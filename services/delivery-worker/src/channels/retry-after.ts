/**
 * How long a server asks to wait, by its Retry-After header: seconds or a date (RFC 9110, 10.2.3).
 *
 * @returns milliseconds, 0 for a date that has passed; undefined without a header that can be read
 */
export function retryAfterMs(header: unknown, nowMs: number): number | undefined {
  if (typeof header !== 'string') return undefined;
  if (/^\d{1,9}$/.test(header)) return Number(header) * 1_000;
  const at = Date.parse(header);
  return Number.isNaN(at) ? undefined : Math.max(0, at - nowMs);
}
