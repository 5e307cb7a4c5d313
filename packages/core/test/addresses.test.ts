import { lookup } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { describe, expect, test } from '@jest/globals';
import { isPrivateAddress, toAddressGroup } from '../src/client-address.ts';
import { createPublicLookup, isPublicAddress, NOT_ALLOWED } from '../src/public-address.ts';

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

const PUBLIC = [
  '1.1.1.1',
  '142.250.74.42',
  '172.15.0.1',
  '172.32.0.1',
  '2a00:1450:4001:80b::200a',
  '2600:1901:0:38d7::',
  '64:ff9b::8efa:4a2a',
];
const NOT_PUBLIC = [
  ...['0.0.0.0', '10.1.2.3', '100.64.0.1', '127.0.0.1', '127.255.255.254', '169.254.169.254'],
  ...['172.16.0.1', '172.31.255.255', '192.168.1.1', '198.18.0.1', '224.0.0.1', '255.255.255.255'],
  ...['::', '::1', '::127.0.0.1', '::ffff:127.0.0.1', '::ffff:8.8.8.8', 'fc00::1', 'fd12:3456::1'],
  ...['fe80::1', 'fe80::1%lo', 'ff02::1', '2001:db8::1', '2002:7f00:1::', '64:ff9b::7f00:1'],
  ...['64:ff9b::a9fe:a9fe', '64:ff9b::', '64:ff9b:1::1', 'localhost', ''],
];

describe('an address', () => {
  test.each(PUBLIC)('%s is public', (address) => expect(isPublicAddress(address)).toBe(true));
  test.each(NOT_PUBLIC)('%p is not', (address) => expect(isPublicAddress(address)).toBe(false));
});

/** Resolves every name to these addresses. */
function createResolver(...addresses: string[]): LookupFunction {
  return (_hostname, _options, callback) =>
    callback(
      null,
      addresses.map((address) => ({ address, family: isIP(address) })),
    );
}

function lookupPublic(dnsLookup: LookupFunction, all: boolean): Promise<unknown> {
  return new Promise((resolve, reject) =>
    createPublicLookup(dnsLookup)('push.example', { all }, (error, address, family) =>
      error === null ? resolve(all ? address : { address, family }) : reject(error),
    ),
  );
}

describe('resolving a name', () => {
  test('returns public addresses', async () => {
    expect(await lookupPublic(createResolver('1.1.1.1'), false)).toEqual({
      address: '1.1.1.1',
      family: 4,
    });
    expect(await lookupPublic(createResolver('1.1.1.1'), true)).toEqual([
      { address: '1.1.1.1', family: 4 },
    ]);
  });

  test.each([['127.0.0.1'], ['1.1.1.1', '10.0.0.1'], ['fd00::1'], []])(
    'refuses a name of %p %p',
    async (...addresses) => {
      await expect(lookupPublic(createResolver(...addresses), true)).rejects.toThrow(NOT_ALLOWED);
    },
  );

  test('refuses the local host by its name', async () => {
    const dnsLookup: LookupFunction = (_hostname, options, callback) =>
      lookup('localhost', options, callback);
    await expect(lookupPublic(dnsLookup, true)).rejects.toThrow(NOT_ALLOWED);
  });

  test('reports a name that does not exist', async () => {
    const notFound: LookupFunction = (_hostname, _options, callback) =>
      callback(Object.assign(new Error(), { code: 'ENOTFOUND' }), []);
    await expect(lookupPublic(notFound, true)).rejects.toMatchObject({ code: 'ENOTFOUND' });
  });
});
