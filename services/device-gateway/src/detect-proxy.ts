import type { ProxyWarner } from '@carillon/runtime/proxy-warner';
import { isProxyHeader } from './proxy-header.ts';

/** Detects load balancers that the settings don't name. */
export interface ProxyDetector {
  /** Takes the first bytes of a connection. @param address of the peer */
  onFirstBytes(bytes: Buffer, address: string): void;
  /** Takes the end of a TLS handshake. */
  onTlsHandshake(isTls: boolean, address: string): void;
  /** Is called for each new connection of an address that has too many. */
  onConnectionLimit(address: string): void;
}

export function createProxyDetector(proxyWarner: ProxyWarner): ProxyDetector {
  return {
    onFirstBytes: (bytes, address) =>
      proxyWarner.observe('gateway-proxy-header', isProxyHeader(bytes), address),
    onTlsHandshake(isTls, address) {
      if (!isTls) proxyWarner.warnIfPrivate('gateway-no-tls', address);
    },
    onConnectionLimit: (address) =>
      proxyWarner.warnIfPrivate('gateway-limited-private-address', address),
  };
}

/** With PROXY_PROTOCOL=on every connection has its header, and addresses are the clients'. */
export const NO_PROXY_DETECTOR: ProxyDetector = {
  onFirstBytes: () => undefined,
  onTlsHandshake: () => undefined,
  onConnectionLimit: () => undefined,
};
