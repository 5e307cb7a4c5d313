import { type LookupAddress, lookup } from 'node:dns';
import { Resolver } from 'node:dns/promises';
import { isIP, type LookupFunction } from 'node:net';
import { createGuardedLookup, isPublicAddress } from '@carillon/core/public-address';
import { bareHostname } from '@carillon/core/web-push-endpoint';

/** First time for a response of a DNS server, which doubles, and tries: together less than the deadline of a request. */
const QUERY = { timeout: 1_000, tries: 3 };
/** Codes of a query for a name that has no address. */
const NO_ADDRESS = ['ENOTFOUND', 'ENODATA'];

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
  /** Replaces the resolution of names. */
  dnsLookup?: LookupFunction | undefined;
  /** Replaces the check of the addresses of names: a test has no public address to serve. */
  isPublic?: (address: string) => boolean;
}

/**
 * Creates a function that returns the connection parameters of an endpoint. Names of known services are resolved as the system
 * does; others may be of a zone whose servers do not respond.
 */
export function createTargetResolver({
  hostOverrides,
  ca,
  dnsLookup,
  isPublic = isPublicAddress,
}: ConnectTargetOptions): (endpoint: URL, isKnown: boolean) => ConnectTarget {
  const systemLookup = createGuardedLookup(dnsLookup ?? (lookup as LookupFunction), isPublic);
  const queryLookup = createGuardedLookup(dnsLookup ?? createQueryLookup(), isPublic);
  return (endpoint, isKnown) => {
    const { host, port } = endpoint;
    const hostname = bareHostname(endpoint);
    // TLS takes no address as a server name (RFC 6066, 3); then the address that is connected to is checked.
    const servername = isIP(hostname) === 0 ? hostname : '';
    const authority = port === '' ? endpoint.hostname : host;
    const hostOverride = hostOverrides.get(host);
    if (hostOverride !== undefined) return { ...hostOverride, servername, authority, ca };
    return {
      hostname,
      port: port || '443',
      servername,
      authority,
      lookup: isKnown ? systemLookup : queryLookup,
    };
  };
}

/**
 * Creates a name resolution by queries that do not wait for each other. The system's has few threads for all names of the process:
 * some that are never answered would delay every other connect. A name that does not exist has no addresses, which a guard
 * refuses like those of the operator's network: tenants must not learn which names exist there.
 *
 * @param servers `address:port` of DNS servers instead of the system's
 */
export function createQueryLookup(servers?: readonly string[]): LookupFunction {
  const resolver = new Resolver(QUERY);
  if (servers !== undefined) resolver.setServers(servers);

  async function query(hostname: string, family: 4 | 6): Promise<LookupAddress[]> {
    try {
      const found = await (family === 4
        ? resolver.resolve4(hostname)
        : resolver.resolve6(hostname));
      return found.map((address) => ({ address, family }));
    } catch (error) {
      if (NO_ADDRESS.includes((error as NodeJS.ErrnoException).code ?? '')) return [];
      throw error;
    }
  }

  return async (hostname, _options, callback) => {
    const results = await Promise.allSettled([query(hostname, 4), query(hostname, 6)]);
    const addresses = results.flatMap((one) => (one.status === 'fulfilled' ? one.value : []));
    const failure = results.find((one) => one.status === 'rejected');
    if (addresses.length === 0 && failure !== undefined) callback(failure.reason, []);
    else callback(null, addresses);
  };
}
