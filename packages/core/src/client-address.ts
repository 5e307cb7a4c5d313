import { isIPv4, isIPv6 } from 'node:net';
import ipaddr from 'ipaddr.js';

/** Number of groups of 16 bits in the network of an IPv6 address. */
const NETWORK_GROUP_COUNT = 4;

/**
 * Prefixes of addresses whose last 32 bits are an IPv4 address: mapped (RFC 4291, 2.5.5.2) and NAT64 (RFC 6052, 2.1).
 */
const IPV4_PREFIXES = [
  ipaddr.IPv6.parseCIDR('::ffff:0:0/96'),
  ipaddr.IPv6.parseCIDR('64:ff9b::/96'),
];

/**
 * Returns the group that limits per client address count by: an IPv4 address in any notation, or the /64 network of
 * an IPv6 address, because a household usually has a whole /64. An IPv4 client's address behind NAT64 (64:ff9b::/96)
 * counts as the IPv4 address: otherwise all IPv4 clients would share one /64. Any other text is returned unchanged.
 */
export function toAddressGroup(address: string): string {
  const [ip = ''] = address.trim().split('%');
  if (isIPv4(ip)) return ip;
  if (!isIPv6(ip)) return address;
  // ipaddr.js takes `::192.0.2.1` (compatible, deprecated) for the mapped address, but not `0::192.0.2.1`.
  const parsed = ipaddr.IPv6.parse(ip.replace(/^::(?=\d+\.)/, '0::'));
  if (IPV4_PREFIXES.some((prefix) => parsed.match(prefix))) {
    return parsed.toByteArray().slice(-4).join('.');
  }
  const network = parsed.parts.slice(0, NETWORK_GROUP_COUNT);
  return `${network.map((group) => group.toString(16)).join(':')}::/64`;
}

/** Address ranges of operators' proxies, used by hardly any client on the internet (RFC 1918, 4193, 6598). */
const PRIVATE_RANGES: ReadonlySet<string> = new Set([
  'private',
  'uniqueLocal',
  'loopback',
  'linkLocal',
  'carrierGradeNat',
]);

/** Returns whether an address is private, in any notation; false for other text. */
export function isPrivateAddress(address: string): boolean {
  const [ip = ''] = address.trim().split('%');
  return ipaddr.isValid(ip) && PRIVATE_RANGES.has(ipaddr.process(ip).range());
}
