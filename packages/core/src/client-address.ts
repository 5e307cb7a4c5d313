import { isIPv6 } from 'node:net';

const MAPPED = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i;
const GROUPS_OF_A_NETWORK = 4;

/**
 * What limits per client address count by: an IPv4 address, or the /64 network of an IPv6 one, of which every
 * household has a whole. Anything else is taken as it is.
 */
export function addressGroup(address: string): string {
  const mapped = MAPPED.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  const [plain = ''] = address.split('%');
  if (!isIPv6(plain)) return address;
  return `${ipv6Groups(plain).slice(0, GROUPS_OF_A_NETWORK).join(':')}::/64`;
}

/** The groups in front of and behind `::` with the zeros that it stands for (RFC 4291, 2.2). */
function ipv6Groups(address: string): string[] {
  const [head = '', tail] = address.split('::');
  const front = groupsIn(head);
  if (tail === undefined) return front;
  const back = groupsIn(tail);
  const zeros = Math.max(0, 8 - front.length - back.length);
  return [...front, ...Array<string>(zeros).fill('0'), ...back];
}

function groupsIn(text: string): string[] {
  const groups = text === '' ? [] : text.split(':');
  return groups.map((group) =>
    group.includes('.') ? group : Number.parseInt(group, 16).toString(16),
  );
}
