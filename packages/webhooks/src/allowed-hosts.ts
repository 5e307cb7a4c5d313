import { BlockList, isIP, type LookupFunction } from 'node:net';
import { createGuardedLookup, isPublicAddress } from '@carillon/core/public-address';

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

/** Creates a name resolution for one protocol. It accepts any result of the operator's host names. */
export function createReceiverLookup(
  dnsLookup: LookupFunction,
  isHttps: boolean,
  hosts: AllowedHosts,
): LookupFunction {
  return createGuardedLookup(
    dnsLookup,
    (address, hostname) =>
      hosts.names.has(hostname.toLowerCase()) || isAddressAllowed(address, isHttps, hosts),
  );
}
