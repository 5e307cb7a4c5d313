import { describe, expect, test } from '@jest/globals';
import { addressGroup } from '../src/client-address.ts';
import { readPushEndpoint, readPushHost } from '../src/web-push-endpoint.ts';

const isAllowed = (endpoint: string, entries: readonly string[] = []) =>
  readPushEndpoint(endpoint, entries.map(readPushHost)) !== undefined;

describe('limits count', () => {
  test.each([
    ['192.0.2.1', '192.0.2.1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:0db8:0001:0002:ffff::1', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['', ''],
  ])('%p as %p', (address, group) => expect(addressGroup(address)).toBe(group));
});

describe('a Web Push endpoint', () => {
  test.each([
    'https://fcm.googleapis.com/fcm/send/abc',
    'https://updates.push.services.mozilla.com/wpush/v2/abc',
    'https://wns2-par02p.notify.windows.com/w/?token=abc',
    'https://web.push.apple.com/abc',
    'https://FCM.googleapis.com:443/x',
  ])('%s is one', (endpoint) => expect(isAllowed(endpoint)).toBe(true));

  test.each([
    'http://fcm.googleapis.com/x',
    'https://fcm.googleapis.com:444/x',
    'https://a:b@fcm.googleapis.com/x',
    'https://fcm.googleapis.com.example/x',
    'https://push.apple.com.example/x',
    `https://fcm.googleapis.com/${'x'.repeat(2_048)}`,
    '//fcm.googleapis.com/x',
    '',
  ])('%p is none', (endpoint) => expect(isAllowed(endpoint)).toBe(false));

  test('of a service of one’s own is one when it is named, with its port', () => {
    expect(isAllowed('https://push.example:8443/x', ['push.example:8443'])).toBe(true);
    expect(isAllowed('https://push.example/x', ['push.example:8443'])).toBe(false);
    expect(isAllowed('http://push.example:8443/x', ['push.example:8443'])).toBe(false);
  });
});
