import { lookup } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { onlyPublic } from './public-address.ts';

/** Where requests to a host go. Absent: to the host itself, if its address is public. */
export type Detours = ReadonlyMap<string, { hostname: string; port: string }>;

/** How an origin is reached. */
export interface Route {
  hostname: string;
  port: string;
  /** What the certificate is checked for. */
  servername: string;
  /** The Host that the server is told. */
  authority: string;
  lookup?: LookupFunction;
  ca?: string | undefined;
}

/** What routing may be told. */
export interface RouteOptions {
  detours: Detours;
  /** PEM of the authority that signed the detours' certificates. */
  ca?: string | undefined;
  /** In place of the system's look-up of names. */
  look?: LookupFunction | undefined;
}

/** Finds how an endpoint is reached. */
export function createRouting({ detours, ca, look }: RouteOptions): (endpoint: URL) => Route {
  const guarded = onlyPublic(look ?? (lookup as LookupFunction));
  return ({ host, hostname, port }) => {
    const name = unbracketed(hostname);
    // An address is no name that TLS may be told (RFC 6066, 3); the one that is connected to is checked then.
    const servername = isIP(name) === 0 ? name : '';
    const authority = port === '' ? hostname : host;
    const detour = detours.get(host);
    if (detour !== undefined) return { ...detour, servername, authority, ca };
    return { hostname, port: port || '443', servername, authority, lookup: guarded };
  };
}

/** Node wants an IPv6 address without what a URL puts around it. */
function unbracketed(hostname: string): string {
  return hostname.startsWith('[') ? hostname.slice(1, -1) : hostname;
}
