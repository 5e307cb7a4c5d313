import { describe, expect, test } from '@jest/globals';
import { normalizeBundleId, normalizeWebHost } from '../src/apps.ts';

describe('names of an app', () => {
  test.each(['com.example.App-2', 'app'])('%s is a bundle id', (text) => {
    expect(normalizeBundleId(text)).toBe(text);
  });

  test.each(['', 'com.example.*', 'com..app', '.app', 'my app', 'com.example.a_b', 'https://a.b'])(
    '"%s" is not a bundle id',
    (text) => expect(() => normalizeBundleId(text)).toThrow('is not a bundle id'),
  );

  test.each([
    ['www.example.com', 'www.example.com'],
    ['WWW.Example.COM', 'www.example.com'],
    ['bücher.example', 'xn--bcher-kva.example'],
    ['localhost', 'localhost'],
    ['192.168.1.7', '192.168.1.7'],
    ['[::1]', '[::1]'],
  ])('%s is normalized to the host name %s', (text, host) =>
    expect(normalizeWebHost(text)).toBe(host),
  );

  test.each([
    ...['', 'https://a.example', 'a.example:443', 'a.example/x', '*.example', 'a..b', 'a b'],
    ...['[::1]:80', 'u@a.example'],
  ])('"%s" is not a host name', (text) =>
    expect(() => normalizeWebHost(text)).toThrow('is not a host name'),
  );
});
