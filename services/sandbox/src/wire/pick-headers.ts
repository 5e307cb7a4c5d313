import type { IncomingHttpHeaders } from 'node:http2';

/** The headers of these names that a request has; those are what is remembered of it. */
export function pickHeaders(
  headers: IncomingHttpHeaders,
  names: readonly string[],
): Record<string, string> {
  const found: Record<string, string> = {};
  for (const name of names) {
    const value = headers[name];
    if (value !== undefined) found[name] = String(value);
  }
  return found;
}
