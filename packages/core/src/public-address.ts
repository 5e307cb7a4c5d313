import { BlockList, isIP, type LookupFunction } from 'node:net';

/** Networks of IPv4 that are not globally reachable (IANA's registry of special-purpose addresses), and multicast. */
const SPECIAL_IPV4 = [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
];
const GLOBAL_IPV6 = ['2000::/3'];
/**
 * Networks within {@link GLOBAL_IPV6} for protocol assignments, documentation, and 6to4, which carries an IPv4 address.
 */
const SPECIAL_IPV6 = ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20'];
/** Networks of addresses that carry an IPv4 address, for clients without IPv4 (RFC 6052). */
const NAT64_IPV6 = ['64:ff9b::/96'];

const specialIpv4 = createBlockList(SPECIAL_IPV4, 'ipv4');
const globalIpv6 = createBlockList(GLOBAL_IPV6, 'ipv6');
const specialIpv6 = createBlockList(SPECIAL_IPV6, 'ipv6');
const nat64Ipv6 = createBlockList(NAT64_IPV6, 'ipv6');

/** Checks whether an IP address is globally reachable, and so not in the operator's network. */
export function isPublicAddress(address: string): boolean {
  const family = isIP(address);
  if (family === 4) return !specialIpv4.check(address, 'ipv4');
  if (family !== 6 || address.includes('%')) return false;
  if (nat64Ipv6.check(address, 'ipv6')) return isPublicAddress(embeddedIpv4(address));
  return globalIpv6.check(address, 'ipv6') && !specialIpv6.check(address, 'ipv6');
}

/**
 * Text of the error of a request that was not sent because its host is not allowed. It is the same for every reason: tenants
 * see it, and must not learn which names and addresses exist in the operator's network.
 */
export const NOT_ALLOWED = 'address not allowed';

/**
 * Creates a name resolution that fails with NOT_ALLOWED unless every result is allowed. It runs at each connect, so a name
 * with other results the second time (DNS rebinding) gains nothing. Literal addresses aren't resolved: callers must check
 * them.
 */
export function createGuardedLookup(
  dnsLookup: LookupFunction,
  isAllowed: (address: string, hostname: string) => boolean,
): LookupFunction {
  return (hostname, options, callback) =>
    dnsLookup(hostname, { ...options, all: true }, (error, addresses) => {
      if (error !== null) return callback(error, []);
      const resolved = Array.isArray(addresses) ? addresses : [];
      const [first] = resolved;
      if (first === undefined || !resolved.every(({ address }) => isAllowed(address, hostname))) {
        return callback(new Error(NOT_ALLOWED), []);
      }
      if (options.all === true) callback(null, resolved);
      else callback(null, first.address, first.family);
    });
}

/** Creates a name resolution that fails with NOT_ALLOWED when a result is no public address. */
export function createPublicLookup(dnsLookup: LookupFunction): LookupFunction {
  return createGuardedLookup(dnsLookup, isPublicAddress);
}

function createBlockList(subnets: readonly string[], family: 'ipv4' | 'ipv6'): BlockList {
  const list = new BlockList();
  for (const subnet of subnets) {
    const [net = '', prefix] = subnet.split('/');
    list.addSubnet(net, Number(prefix), family);
  }
  return list;
}

/** Returns the last four bytes of an IPv6 address as an IPv4 address; the URL parser writes the groups out. */
function embeddedIpv4(address: string): string {
  const groups = new URL(`http://[${address}]`).hostname.slice(1, -1).split(':').slice(-2);
  const bytes = groups.flatMap((group) => {
    const value = Number.parseInt(group || '0', 16);
    return [value >> 8, value & 255];
  });
  return bytes.join('.');
}
