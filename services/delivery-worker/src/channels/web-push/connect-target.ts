import { lookup } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { createPublicLookup } from '@carillon/core/public-address';

/** Addresses to connect to, by host. Other hosts are connected to directly, if their address is public. */
export type HostOverrides = ReadonlyMap<string, { hostname: string; port: string }>;

/** Connection parameters of an origin. */
export interface ConnectTarget {
  hostname: string;
  port: string;
  /** Name that the certificate is checked for. */
  servername: string;
  /** Host header of requests. */
  authority: string;
  lookup?: LookupFunction;
  ca?: string | undefined;
}

/** Settings of the resolver. */
export interface ConnectTargetOptions {
  hostOverrides: HostOverrides;
  /** Certificate of the authority that signed the host overrides' certificates, PEM. */
  ca?: string | undefined;
  /** Replaces the system's name resolution. */
  dnsLookup?: LookupFunction | undefined;
}

/** Creates a function that returns the connection parameters of an endpoint. */
export function createTargetResolver({
  hostOverrides,
  ca,
  dnsLookup,
}: ConnectTargetOptions): (endpoint: URL) => ConnectTarget {
  const publicLookup = createPublicLookup(dnsLookup ?? (lookup as LookupFunction));
  return ({ host, hostname, port }) => {
    const bareHostname = stripBrackets(hostname);
    // TLS takes no address as a server name (RFC 6066, 3); then the address that is connected to is checked.
    const servername = isIP(bareHostname) === 0 ? bareHostname : '';
    const authority = port === '' ? hostname : host;
    const hostOverride = hostOverrides.get(host);
    if (hostOverride !== undefined) return { ...hostOverride, servername, authority, ca };
    return { hostname, port: port || '443', servername, authority, lookup: publicLookup };
  };
}

/** Removes a URL's brackets around an IPv6 address; Node takes it without them. */
function stripBrackets(hostname: string): string {
  return hostname.startsWith('[') ? hostname.slice(1, -1) : hostname;
}
