import { createPublicKey, verify } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { createProviderTokens } from '../../src/channels/apns/provider-token.ts';
import { createKey } from './keys.ts';

const MINUTE_MS = 60_000;
const KEY = { key: createKey(), keyId: 'KEYKEYKEY1', teamId: 'TEAMTEAM01' };

function createTokensWithClock() {
  // Not from 0: a clock may begin anywhere.
  const begin = 1_000;
  const clock = { minutes: begin, correctedBy: 0 };
  const startedAt = Date.now();
  const wallNow = () => startedAt + (clock.minutes - begin + clock.correctedBy) * MINUTE_MS;
  return { clock, tokens: createProviderTokens(() => clock.minutes * MINUTE_MS, wallNow) };
}

test('a token is a JWT as Apple requires, valid from now', () => {
  const before = Math.floor(Date.now() / 1_000);
  const { authorization } = createTokensWithClock().tokens.of(KEY).current();
  const [header = '', claims = '', signature = ''] = authorization
    .replace('bearer ', '')
    .split('.');
  const parse = (text: string) => JSON.parse(Buffer.from(text, 'base64url').toString());
  expect(parse(header)).toEqual({ alg: 'ES256', kid: KEY.keyId });
  const { iat, ...others } = parse(claims);
  expect(others).toEqual({ iss: KEY.teamId });
  expect(iat).toBeGreaterThanOrEqual(before);
  expect(iat).toBeLessThanOrEqual(Date.now() / 1_000);
  const key = { key: createPublicKey(KEY.key), dsaEncoding: 'ieee-p1363' } as const;
  const signed = Buffer.from(`${header}.${claims}`);
  expect(verify('sha256', signed, key, Buffer.from(signature, 'base64url'))).toBe(true);
});

test('all users of a key have one token, whatever the line ends of its file', () => {
  const { tokens } = createTokensWithClock();
  const token = tokens.of(KEY).current();
  expect(tokens.of({ ...KEY }).current()).toBe(token);
  expect(tokens.of({ ...KEY, key: KEY.key.replaceAll('\n', '\r\n') }).current()).toBe(token);
});

test.each([
  ['key id', { keyId: 'KEYKEYKEY2' }],
  ['team', { teamId: 'TEAMTEAM02' }],
  ['key under the same ids', { key: createKey() }],
])('another %s has a token of its own', (_, change) => {
  const { tokens } = createTokensWithClock();
  const token = tokens.of(KEY).current();
  expect(tokens.of({ ...KEY, ...change }).current()).not.toBe(token);
  expect(tokens.of(KEY).current()).toBe(token);
});

test.each([-120, 120])('a clock that is corrected by %d minutes makes a new token', (minutes) => {
  const { clock, tokens } = createTokensWithClock();
  const token = tokens.of(KEY).current();
  clock.correctedBy = 0.9;
  expect(tokens.of(KEY).current()).toBe(token);
  clock.correctedBy = minutes;
  const next = tokens.of(KEY).current();
  expect(next).not.toBe(token);
  expect(tokens.of(KEY).current()).toBe(next);
});

test('a late refusal of an old token replaces nothing, and one of its successor neither', () => {
  const { clock, tokens } = createTokensWithClock();
  const token = tokens.of(KEY);
  const first = token.current();
  clock.minutes += 55;
  const second = token.current();
  expect(token.replace(first)).toBe(second);
  expect(token.replace(second)).toBeUndefined();
});
