/**
 * Signs that a process works behind a proxy which its settings don't name, so that all clients share the proxy's
 * address and meet the limits of one address. The text names the setting for an operator; logs and `carillon doctor`
 * show it.
 */
export const PROXY_WARNINGS = {
  'api-forwarded-header':
    'requests reach the API with X-Forwarded-For or Forwarded, and TRUST_PROXY is 0: set TRUST_PROXY to the number of proxies in front of the API, or all clients share their address and its limits',
  'api-too-few-proxies':
    'X-Forwarded-For has more entries than TRUST_PROXY, and the trusted one is a private address: set TRUST_PROXY to the number of all proxies in front of the API, or all clients share an address and its limits',
  'api-limited-private-address':
    'a private address exceeds a limit per client address of the API: if it is a proxy, set TRUST_PROXY to the number of proxies and let them send X-Forwarded-For',
  'gateway-proxy-header':
    'connections to the gateway begin with a PROXY protocol header, and PROXY_PROTOCOL is off: set PROXY_PROTOCOL=on, or no device can connect through that load balancer',
  'gateway-no-tls':
    'connections from a private address to the port of MQTT over TLS begin with something else than TLS: if a load balancer sends a PROXY protocol header, set PROXY_PROTOCOL=on',
  'gateway-limited-private-address':
    'a private address opens more connections to the gateway than one address may: if it is a load balancer, let it send PROXY protocol version 2 and set PROXY_PROTOCOL=on',
} as const;

/** A sign of a proxy that the settings don't name. */
export type ProxyWarning = keyof typeof PROXY_WARNINGS;
