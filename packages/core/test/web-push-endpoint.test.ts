import { describe, expect, test } from '@jest/globals';
import { parsePushEndpoint, parsePushHosts } from '../src/web-push-endpoint.ts';

const isAllowed = (endpoint: string, entries: readonly string[] = []) =>
  parsePushEndpoint(endpoint, parsePushHosts(entries)) !== undefined;

describe('a hostile endpoint is rejected', () => {
  test.each([
    ...['https://127.0.0.1/x', 'https://1.1.1.1/x', 'https://[::ffff:7f00:1]/x'],
    ...['https://evil.example/#fcm.googleapis.com', 'http://fcm.googleapis.com/x'],
    ...['https://a:b@fcm.googleapis.com/x', 'https://:password@fcm.googleapis.com/x'],
    ...[`https://fcm.googleapis.com/${'x'.repeat(2_048)}`, '//fcm.googleapis.com/x', 'no url', ''],
    ...['https://127.1/x', 'https://0x7f.1/x', 'https://0177.0.0.1/x', 'https://2130706433/x'],
    ...['https://[::1]/x', 'https://[::ffff:127.0.0.1]/x', 'https://[fd00::1]/x'],
    ...['https://[fe80::1]/x', 'https://10.0.0.1/x', 'https://192.168.1.1/x'],
    ...['https://169.254.169.254/latest/meta-data', 'https://8.8.8.8/x', 'https://localhost/x'],
    ...['https://user@fcm.googleapis.com/x', 'https://fcm.googleapis.com@evil.example/x'],
    ...['https://fcm.googleapis.com%40evil.example/x'],
    ...['https://evil.example\\@fcm.googleapis.com/x', 'https://evil.example/fcm.googleapis.com'],
    ...['https://evil.example?fcm.googleapis.com', 'https://fcm.googleapis.com:8443/x'],
    ...['https://fcm.googleapis.com./x', 'https://notfcm.googleapis.com/x'],
    ...['https://evilpush.apple.com/x', 'https://push.apple.com.evil.example/x'],
    ...['https://ｆcm.googleapis.com.evil.example/x', 'wss://fcm.googleapis.com/x'],
    ...['ftp://fcm.googleapis.com/x', 'file:///etc/passwd', 'javascript:alert(1)'],
    ...['data:text/plain,x'],
  ])('%p', (endpoint) => {
    expect(isAllowed(endpoint)).toBe(false);
    expect(isAllowed(endpoint, ['push.example:8443'])).toBe(false);
  });
});

test.each([
  'https://fcm.googleapis.com/fcm/send/abc',
  'https://updates.push.services.mozilla.com/wpush/v2/abc',
  'https://wns2-par02p.notify.windows.com/w/?token=abc',
  'https://web.push.apple.com/abc',
  'https://FCM.googleapis.com:443/x',
])('the endpoint %s is accepted', (endpoint) => expect(isAllowed(endpoint)).toBe(true));

describe('an operator’s entry', () => {
  test.each([
    ['push.example', { host: 'push.example' }],
    ['Push.Example:443', { host: 'push.example' }],
    [' push.example:8443 ', { host: 'push.example:8443' }],
    ['127.0.0.1:4009', { host: '127.0.0.1:4009' }],
    ['[::1]:4009', { host: '[::1]:4009' }],
    ['jmt17.google.com=127.0.0.1:9', { host: 'jmt17.google.com', connectTo: '127.0.0.1:9' }],
  ])('%p is parsed', (entry, expected) =>
    expect(parsePushHosts([entry])).toEqual({ listed: [expected], any: false }),
  );

  test.each(['a b', '', 'push.example=', 'push.example:x', '*:8443', '*=10.0.0.1:1', '*.example'])(
    '%p is refused',
    (entry) => expect(() => parsePushHosts([entry])).toThrow(`${entry} is no host`),
  );

  test('allows its host only with its port', () => {
    const entries = ['127.0.0.1:4009', 'push.example=10.0.0.1:3128'];
    expect(isAllowed('https://127.0.0.1:4009/x', entries)).toBe(true);
    expect(isAllowed('https://2130706433:4009/x', entries)).toBe(true);
    expect(isAllowed('https://127.0.0.1:4010/x', entries)).toBe(false);
    expect(isAllowed('http://127.0.0.1:4009/x', entries)).toBe(false);
    expect(isAllowed('https://127.0.0.1/x', entries)).toBe(false);
    expect(isAllowed('https://push.example/x', entries)).toBe(true);
    expect(isAllowed('https://10.0.0.1:3128/x', entries)).toBe(false);
    expect(isAllowed('https://x@push.example/x', entries)).toBe(false);
  });
});

describe('with the entry *', () => {
  const ENTRIES = ['127.0.0.1:4009', ' * ', 'push.internal'];

  test.each([
    ...['https://up.example/x', 'https://up.example:8443/up/a-token?up=1', 'https://up.example./x'],
    ...['https://1.1.1.1/x', 'https://1.1.1.1:8443/x', 'https://16843009/x'],
    ...['https://[2606:4700:4700::1111]:8443/x', 'https://[64:ff9b::8efa:4a2a]/x'],
    ...['https://fcm.googleapis.com/x', 'https://fcm.googleapis.com:8443/x'],
    ...['https://127.0.0.1:4009/x', 'https://push.internal/x'],
  ])('the endpoint %s is accepted', (endpoint) => expect(isAllowed(endpoint, ENTRIES)).toBe(true));

  test.each([
    ...['http://up.example/x', 'wss://up.example/x', 'https://user@up.example/x'],
    ...['https://:password@up.example/x', `https://up.example/${'x'.repeat(2_048)}`, '', '*'],
    ...['https://127.0.0.1/x', 'https://127.0.0.1:4010/x', 'https://127.1/x', 'https://0x7f.1/x'],
    ...['https://0177.0.0.1/x', 'https://2130706433/x', 'https://127.0.0.1./x', 'https://0/x'],
    ...['https://10.0.0.1/x', 'https://172.16.0.1/x', 'https://192.168.1.1/x'],
    ...['https://100.64.0.1/x', 'https://169.254.169.254/latest/meta-data', 'https://224.0.0.1/x'],
    ...['https://１２７.0.0.1/x', 'https://[::1]/x', 'https://[::]/x', 'https://[fd00::1]/x'],
    ...['https://[fe80::1]/x', 'https://[::ffff:127.0.0.1]/x', 'https://[::ffff:7f00:1]/x'],
    ...['https://[::ffff:8.8.8.8]/x', 'https://[64:ff9b::7f00:1]/x', 'https://[2002:7f00:1::]/x'],
    ...['https://[64:ff9b:1::1]/x', 'https://localhost/x', 'https://localhost./x'],
    ...['https://redis:6379/x', 'https://*/x', 'https://*:8443/x'],
  ])('the endpoint %p is refused', (endpoint) => expect(isAllowed(endpoint, ENTRIES)).toBe(false));
});
