import { beforeEach, expect, test } from '@jest/globals';
import { createProxyWarner, type ProxyWarner } from '../src/proxy-warner.ts';

const KIND = 'api-forwarded-header';
const PRIVATE = '10.1.2.3';
const PUBLIC = '203.0.113.9';

let now: number;
let logged: string[];
let recorded: string[];
let warner: ProxyWarner;
beforeEach(() => {
  now = 5_000;
  logged = [];
  recorded = [];
  warner = createProxyWarner(
    {
      log: { warn: (_fields: unknown, text?: string) => void logged.push(text ?? '') },
      record: async (kind) => {
        recorded.push(kind);
        throw new Error('MongoDB is away');
      },
    },
    () => now,
  );
});

test('a flood is logged once an hour and recorded once a minute', () => {
  for (let minute = 0; minute < 61; minute += 1) {
    for (let n = 0; n < 1_000; n += 1) warner.observe(KIND, true, PRIVATE);
    now += 60_000;
  }
  expect(logged).toHaveLength(2);
  expect(logged[0]).toContain('set TRUST_PROXY');
  expect(recorded).toHaveLength(61);
});

test('kinds do not suppress each other', () => {
  warner.warnIfPrivate('gateway-no-tls', PRIVATE);
  warner.warnIfPrivate('api-limited-private-address', '::1');
  expect(recorded).toEqual(['gateway-no-tls', 'api-limited-private-address']);
  expect(logged).toHaveLength(2);
});

test('a suppressed warning does not read the address', () => {
  let reads = 0;
  for (let n = 0; n < 1_000; n += 1) {
    warner.warnIf(KIND, () => {
      reads += 1;
      return true;
    });
  }
  expect(reads).toBe(1);
});

test('clients of public addresses that send the header themselves cause no warning', () => {
  for (let n = 0; n < 5_000; n += 1) warner.observe(KIND, n % 50 !== 0, PUBLIC);
  expect(recorded).toEqual([]);
  for (let n = 0; n < 100; n += 1) warner.observe(KIND, true, PUBLIC);
  expect(recorded).toEqual([KIND]);
});

test('a public address that exceeds a limit causes no warning', () => {
  warner.warnIfPrivate('api-limited-private-address', PUBLIC);
  expect([...logged, ...recorded]).toEqual([]);
});
