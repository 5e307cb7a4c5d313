import { BlockList, isIP, type LookupFunction } from 'node:net';

/** IANA's registry of special-purpose addresses: what isn't globally reachable, and multicast. */
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
/** Inside it: protocol assignments, documentation, and 6to4, which carries an IPv4 address. */
const SPECIAL_IPV6 = ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20'];
/** RFC 6052: an IPv4 address as networks without IPv4 reach it. */
const TRANSLATED = ['64:ff9b::/96'];

const specialIpv4 = listOf(SPECIAL_IPV4, 'ipv4');
const globalIpv6 = listOf(GLOBAL_IPV6, 'ipv6');
const specialIpv6 = listOf(SPECIAL_IPV6, 'ipv6');
const translated = listOf(TRANSLATED, 'ipv6');

/** Whether an IP address is one of the public Internet, and so none of the own network. */
export function isPublicAddress(address: string): boolean {
  const family = isIP(address);
  if (family === 4) return !specialIpv4.check(address, 'ipv4');
  if (family !== 6 || address.includes('%')) return false;
  if (translated.check(address, 'ipv6')) return isPublicAddress(embeddedIpv4(address));
  return globalIpv6.check(address, 'ipv6') && !specialIpv6.check(address, 'ipv6');
}

/**
 * A look-up of names that fails with EPRIVATE when one of the answers is no public address. It runs at each
 * connect, so a name that answers differently the second time (DNS rebinding) gains nothing. Addresses that are
 * no names aren't looked up: who connects must not be given any.
 */
export function onlyPublic(look: LookupFunction): LookupFunction {
  return (hostname, options, callback) =>
    look(hostname, { ...options, all: true }, (error, answers) => {
      if (error !== null) return callback(error, []);
      const found = Array.isArray(answers) ? answers : [];
      const [first] = found;
      if (first === undefined || !found.every(({ address }) => isPublicAddress(address))) {
        const refusal = new Error(`${hostname} has no public address`);
        return callback(Object.assign(refusal, { code: 'EPRIVATE' }), []);
      }
      if (options.all === true) callback(null, found);
      else callback(null, first.address, first.family);
    });
}

function listOf(subnets: readonly string[], family: 'ipv4' | 'ipv6'): BlockList {
  const list = new BlockList();
  for (const subnet of subnets) {
    const [net = '', prefix] = subnet.split('/');
    list.addSubnet(net, Number(prefix), family);
  }
  return list;
}

/** The last four bytes of an IPv6 address as an IPv4 address; the URL parser writes the groups out. */
function embeddedIpv4(address: string): string {
  const groups = new URL(`http://[${address}]`).hostname.slice(1, -1).split(':').slice(-2);
  const bytes = groups.flatMap((group) => {
    const value = Number.parseInt(group || '0', 16);
    return [value >> 8, value & 255];
  });
  return bytes.join('.');
}
