import type { IncomingHttpHeaders } from 'node:http2';

/** Copies the named headers of a request for the request log. */
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
