import type { ProxyWarner } from '@carillon/runtime/proxy-warner';
import { isProxyHeader } from './proxy-header.ts';

/** Detects load balancers that the settings don't name. */
export type ProxyDetector = ReturnType<typeof createProxyDetector>;

export function createProxyDetector(proxyWarner: ProxyWarner) {
  return {
    /** Takes the first bytes of a connection. @param address of the peer */
    onFirstBytes: (bytes: Buffer, address: string): void =>
      proxyWarner.observe('gateway-proxy-header', isProxyHeader(bytes), address),
    /** Takes the end of a TLS handshake. */
    onTlsHandshake(isTls: boolean, address: string): void {
      if (!isTls) proxyWarner.warnIfPrivate('gateway-no-tls', address);
    },
    /** Is called for each new connection of an address that has too many. */
    onConnectionLimit: (address: string): void =>
      proxyWarner.warnIfPrivate('gateway-limited-private-address', address),
  };
}

/**
 * Detector that detects nothing: with PROXY_PROTOCOL=on every connection has its header, and addresses are the
 * clients'.
 */
export const NO_PROXY_DETECTOR: ProxyDetector = {
  onFirstBytes: () => undefined,
  onTlsHandshake: () => undefined,
  onConnectionLimit: () => undefined,
};
