import { describe, expect, test } from '@jest/globals';
import { describeRedisUrl, parseRedisUrl } from '../src/redis-url.ts';

const SECRET = 'sEcret';

describe('an address', () => {
  test('of one server keeps its text, for the parameters of the library', () => {
    const url = 'redis://:p%40ss@cache/3?family=6';
    expect(parseRedisUrl(url)).toEqual({
      kind: 'server',
      hosts: [{ host: 'cache', port: 6379 }],
      isTls: false,
      url,
    });
    expect(parseRedisUrl('rediss://[::1]:7000')).toMatchObject({
      hosts: [{ host: '::1', port: 7000 }],
      isTls: true,
    });
  });

  test('of Sentinels names the primary', () => {
    const url =
      'rediss+sentinel://us%3Aer:p%2Fw@s1,s2:1000,[fd00::1]:2/main/2?sentinelPassword=a%20b';
    expect(parseRedisUrl(url)).toEqual({
      kind: 'sentinel',
      hosts: [
        { host: 's1', port: 26_379 },
        { host: 's2', port: 1_000 },
        { host: 'fd00::1', port: 2 },
      ],
      isTls: true,
      name: 'main',
      db: 2,
      credentials: { username: 'us:er', password: 'p/w' },
      sentinelCredentials: { password: 'a b' },
    });
  });

  test('of a cluster names some of its nodes', () => {
    expect(parseRedisUrl('redis+cluster://:pw@a,b:7001')).toEqual({
      kind: 'cluster',
      hosts: [
        { host: 'a', port: 6379 },
        { host: 'b', port: 7001 },
      ],
      isTls: false,
      credentials: { password: 'pw' },
    });
  });

  test.each([
    ['', 'write redis://'],
    [`http://:${SECRET}@cache`, 'write redis://'],
    [`redis://:${SECRET}@cache:99999`, 'write redis://'],
    [`redis://:${SECRET}@a,b`, 'write redis+sentinel://'],
    [`redis+sentinel://:${SECRET}@a,b`, 'name the primary'],
    [`redis+sentinel://:${SECRET}@a,b/`, 'name the primary'],
    [`redis+sentinel://:${SECRET}@a,b/main/first`, 'is a number'],
    [`redis+sentinel://:${SECRET}@a/main?password=${SECRET}`, 'sentinelPassword'],
    [`redis+cluster://:${SECRET}@a,/`, 'a host is missing'],
    [`redis+cluster://:${SECRET}@a:0`, 'not a number from 1 to 65535'],
    [`redis+cluster://:${SECRET}@a/1`, 'one database'],
    [`redis+cluster://:${SECRET}@a?family=6`, 'no parameters'],
    [`redis+cluster://${SECRET}@a`, ':password@'],
    [`redis+cluster://:${SECRET}%@a`, '%25'],
    [`redis+other://:${SECRET}@a`, 'write redis://'],
  ])('%s is refused, and the error does not hold its password', (url, text) => {
    expect(() => parseRedisUrl(url)).toThrow(text);
    expect(() => parseRedisUrl(url)).not.toThrow(SECRET);
  });
});

test('a description has the hosts and no password', () => {
  const urls = [`redis://u:${SECRET}@a`, `redis+sentinel://u:${SECRET}@a,[::1]:5/main`];
  expect(urls.map(describeRedisUrl)).toEqual(['a:6379', 'main of [::1]:5,a:26379']);
  expect(describeRedisUrl('redis+cluster://a,b')).toBe('the cluster a:6379,b:6379');
});
