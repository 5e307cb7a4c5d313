import { isIP } from 'node:net';

/** Origins of the web pages that may connect; `any`: all. */
export type Origins = ReadonlySet<string> | 'any';

/** Scheme, host and optional port. Apps that run in a browser engine have schemes other than http(s). */
const ORIGIN = /^[a-z][a-z0-9+.-]*:\/\/[^/?#@\s]*$/;

/**
 * Parses origins separated by commas, or `*`.
 *
 * @throws when one of them is not an origin (RFC 6454: scheme, host, port, and nothing else)
 */
export function parseOrigins(text: string): Origins {
  const parts = text.split(',').map((part) => part.trim().toLowerCase());
  const origins = parts.filter((part) => part !== '');
  if (origins.includes('*')) return 'any';
  for (const part of origins) {
    if (!ORIGIN.test(part))
      throw new Error(`"${part}" is not an origin, for instance https://app.example`);
  }
  return new Set(origins.map(normalizeOrigin));
}

/**
 * Checks the Origin header of a WebSocket upgrade. Only browsers must send one: a client without it is an app or a
 * server. Some libraries (Eclipse Paho) send the gateway's own address, which is allowed where no web page can send
 * it: over TLS, or if it is an IP address. A host name over plain HTTP could be an attacker's that resolves to
 * this gateway (DNS rebinding).
 */
export function isOriginAllowed(
  allowed: Origins,
  { origin, host }: { origin?: string | undefined; host?: string | undefined },
): boolean {
  if (origin === undefined || allowed === 'any') return true;
  const normalized = normalizeOrigin(origin.toLowerCase());
  return allowed.has(normalized) || isOwnOrigin(normalized, host);
}

function isOwnOrigin(origin: string, host = ''): boolean {
  const scheme = /^https?:/.exec(origin)?.[0];
  if (scheme === undefined || normalizeOrigin(`${scheme}//${host.toLowerCase()}`) !== origin)
    return false;
  const { hostname } = new URL(origin);
  return scheme === 'https:' || isIP(hostname.replace(/^\[|\]$/g, '')) !== 0;
}

/** Removes the default port of the scheme; returns an origin that can't be parsed unchanged. */
function normalizeOrigin(origin: string): string {
  if (!/^https?:/.test(origin) || !URL.canParse(origin)) return origin;
  return new URL(origin).origin;
}
