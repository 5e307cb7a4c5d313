import { BlockList, isIP, type LookupFunction } from 'node:net';
import { isPublicAddress } from '../channels/web-push/public-address.ts';

/** Errors of a request that was not sent because its host is not allowed. */
export const ADDRESS_ERRORS = { parsed: 'address not allowed', resolved: 'EPRIVATE' } as const;

/** Receivers in the operator's network: host names, and networks as `10.0.0.0/8`. */
export interface AllowedHosts {
  names: ReadonlySet<string>;
  networks: BlockList;
}

/** Parses the setting WEBHOOK_HOSTS: names, addresses and networks, separated by commas. @throws Error on a wrong network */
export function parseAllowedHosts(text: string): AllowedHosts {
  const networks = new BlockList();
  const names = new Set<string>();
  for (const entry of text.split(',').map((one) => one.trim().toLowerCase())) {
    const [address = '', prefix] = entry.split('/', 2);
    const family = isIP(address);
    if (entry === '') continue;
    if (family === 0 && prefix === undefined) names.add(entry);
    else if (family === 0) throw new Error(`${entry} is no network`);
    else if (family === 4) networks.addSubnet(address, Number(prefix ?? 32), 'ipv4');
    else networks.addSubnet(address, Number(prefix ?? 128), 'ipv6');
  }
  return { names, networks };
}

/**
 * Checks whether an address may be connected to: a public one over https, and one of the operator's networks also over
 * http.
 */
export function isAddressAllowed(address: string, isHttps: boolean, hosts: AllowedHosts): boolean {
  const family = isIP(address);
  if (family === 0) return false;
  if (hosts.networks.check(address, family === 4 ? 'ipv4' : 'ipv6')) return true;
  return isHttps && isPublicAddress(address);
}

/**
 * Creates a name resolution for one protocol that fails with EPRIVATE unless every result may be connected to. It runs at
 * each connect, so a name with other results the second time (DNS rebinding) gains nothing.
 */
export function createGuardedLookup(
  dnsLookup: LookupFunction,
  isHttps: boolean,
  hosts: AllowedHosts,
): LookupFunction {
  return (hostname, options, callback) =>
    dnsLookup(hostname, { ...options, all: true }, (error, addresses) => {
      if (error !== null) return callback(error, []);
      const resolved = Array.isArray(addresses) ? addresses : [];
      const isListed = hosts.names.has(hostname.toLowerCase());
      const [first] = resolved;
      if (
        first === undefined ||
        !(isListed || resolved.every(({ address }) => isAddressAllowed(address, isHttps, hosts)))
      ) {
        const notAllowed = new Error(`${hostname} has no address that is allowed`);
        return callback(Object.assign(notAllowed, { code: ADDRESS_ERRORS.resolved }), []);
      }
      if (options.all === true) callback(null, resolved);
      else callback(null, first.address, first.family);
    });
}
