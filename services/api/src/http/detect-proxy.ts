import type { ProxyWarner } from '@carillon/runtime/proxy-warner';
import type { Request } from 'express';

/**
 * Creates a function that detects proxies which TRUST_PROXY does not count. Entries above the trusted ones are no sign
 * by themselves, because any client can send some: only a private address in the trusted place is.
 */
export function createProxyDetector(
  proxyHops: number,
  proxyWarner: ProxyWarner,
): (request: Request) => void {
  if (proxyHops === 0) {
    return ({ headers, socket }) => {
      const hasSign = headers['x-forwarded-for'] !== undefined || headers.forwarded !== undefined;
      proxyWarner.observe('api-forwarded-header', hasSign, socket.remoteAddress ?? '');
    };
  }
  return (request) => {
    const entries = request.headers['x-forwarded-for'];
    if (typeof entries === 'string' && hasMoreEntries(entries, proxyHops)) {
      proxyWarner.warnIfPrivate('api-too-few-proxies', request.ip ?? '');
    }
  };
}

/** Reads no further than it must: the header may be long. */
function hasMoreEntries(text: string, count: number): boolean {
  let comma = -1;
  for (let n = 0; n < count; n += 1) {
    comma = text.indexOf(',', comma + 1);
    if (comma === -1) return false;
  }
  return true;
}
