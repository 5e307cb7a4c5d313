import { describe, expect, test } from '@jest/globals';
import { isPrivateAddress, toAddressGroup } from '../src/client-address.ts';

describe('toAddressGroup maps', () => {
  test.each([
    ['192.0.2.1', '192.0.2.1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['::FFFF:192.0.2.1', '192.0.2.1'],
    ['::ffff:c000:201', '192.0.2.1'],
    ['0:0:0:0:0:ffff:c000:201', '192.0.2.1'],
    ['0000:0000:0000:0000:0000:FFFF:C000:0201', '192.0.2.1'],
    ['0:0:0:0:0:ffff:192.0.2.1', '192.0.2.1'],
    ['::ffff:0:0', '0.0.0.0'],
    ['::ffff:192.0.2.1%eth0', '192.0.2.1'],
    // IPv4 clients behind NAT64 or a stateless translator (RFC 6052).
    ['64:ff9b::192.0.2.1', '192.0.2.1'],
    ['64:ff9b::c000:201', '192.0.2.1'],
    ['64:FF9B:0:0:0:0:C000:0201', '192.0.2.1'],
    // The local-use NAT64 prefix (RFC 8215) counts as any other network.
    ['64:ff9b:1::c000:201', '64:ff9b:1:0::/64'],
    // Translated (RFC 2765) and compatible addresses do not count as IPv4 addresses.
    ['::ffff:0:192.0.2.1', '0:0:0:0::/64'],
    ['::192.0.2.1', '0:0:0:0::/64'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:0DB8:0001:0002:ffff::1', '2001:db8:1:2::/64'],
    ['2001:db8:1:2::', '2001:db8:1:2::/64'],
    ['2001:db8:1:2::192.0.2.1', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['::', '0:0:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['FE80::1%25eth0', 'fe80:0:0:0::/64'],
    ['no address', 'no address'],
    ['1.2.3', '1.2.3'],
    ['2001:db8::1::2', '2001:db8::1::2'],
    ['', ''],
  ])('%p to %p', (address, group) => expect(toAddressGroup(address)).toBe(group));
});

describe('isPrivateAddress', () => {
  test.each(['10.0.0.1', '172.31.0.1', '192.168.1.1', '127.0.0.1', '100.64.0.1', '::1', 'fd00::1'])(
    'is true for %s',
    (address) => expect(isPrivateAddress(address)).toBe(true),
  );
  test.each(['::ffff:10.0.0.1', 'fe80::1%eth0'])('is true for %s, in another notation', (address) =>
    expect(isPrivateAddress(address)).toBe(true),
  );
  test.each(['203.0.113.9', '2001:db8::1', '172.32.0.1', '::ffff:8.8.8.8', '', 'proxy'])(
    'is false for %s',
    (address) => expect(isPrivateAddress(address)).toBe(false),
  );
});
