import type { IncomingMessage } from 'node:http';
import { BlockList, isIP } from 'node:net';
import { HttpError } from './route.ts';

/**
 * Headers of every response: no page of another origin may read, embed or frame it. The sandbox sends no CORS header,
 * so browsers block all other origins.
 */
export const ISOLATION_HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
};

const HOST_HEADER = /^(?<name>\[[\da-f:.]+\]|[\w.-]+)(:\d{1,5})?$/i;
/** An origin that is safe inside a policy: other host names may contain characters that end a directive. */
const PLAIN_ORIGIN = /^https?:\/\/[\w.:[\]-]+$/;
const OTHER_SITES = ['cross-site', 'same-site'];

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');

/**
 * Checks that a request comes from one of the sandbox's pages or from no page.
 *
 * @param names the sandbox's host names besides `localhost` and its addresses
 * @throws {HttpError} 403 for a page of another origin, and for an unknown host name (DNS rebinding)
 */
export function checkAccess(request: IncomingMessage, names: readonly string[]): void {
  const { host, origin } = request.headers;
  if (!isOwnHost(host, request.socket.localAddress, names)) {
    throw new HttpError(
      403,
      `The sandbox does not serve the host ${host}, only localhost, its own addresses and SANDBOX_PUBLIC_HOST.`,
    );
  }
  if (origin !== undefined) {
    if (parseHost(origin) !== host?.toLowerCase()) throw createForbiddenError(origin);
  } else if (isCrossSiteRequest(request)) {
    throw createForbiddenError('another site');
  }
}

/** Checks for a request of another site that has no Origin header (an image, a script, a frame). Links are allowed. */
function isCrossSiteRequest({ method, headers }: IncomingMessage): boolean {
  if (!OTHER_SITES.includes(String(headers['sec-fetch-site']))) return false;
  return method !== 'GET' || headers['sec-fetch-mode'] !== 'navigate';
}

function isOwnHost(
  host: string | undefined,
  localAddress: string | undefined,
  names: readonly string[],
): boolean {
  const name = HOST_HEADER.exec(host ?? '')
    ?.groups?.name?.toLowerCase()
    .replace(/^\[|\]$/g, '');
  if (name === undefined) return false;
  if (name === 'localhost' || names.includes(name)) return true;
  const family = isIP(name);
  if (family === 0) return false;
  return (
    loopback.check(name, family === 4 ? 'ipv4' : 'ipv6') ||
    name === localAddress?.replace(/^::ffff:/, '')
  );
}

/** Parses host and port of an origin. The origin of Firefox's push connection is the server's own `ws:` URL. */
function parseHost(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined;
}

function createForbiddenError(origin: string): HttpError {
  return new HttpError(403, `Pages of ${origin} may not use the sandbox, only its own.`);
}

/**
 * Creates the content security policy of a page.
 *
 * @param api URL of the API that the page calls, if any
 */
export function createContentSecurityPolicy(api: string | null): string {
  const origin = api !== null && URL.canParse(api) ? new URL(api).origin : '';
  const connectSources = PLAIN_ORIGIN.test(origin) ? `'self' ${origin}` : "'self'";
  const directivesByName = {
    'script-src': "'self'",
    'style-src': "'self'",
    'worker-src': "'self'",
    'connect-src': connectSources,
    // A push may name an image on any host.
    'img-src': "'self' data: https: http:",
  };
  const directives = Object.entries(directivesByName).map(([name, value]) => `${name} ${value}; `);
  return `default-src 'none'; ${directives.join('')}base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;
}
