import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createBackOff } from '../src/login/back-off.ts';
import {
  type Browser,
  type ConsoleUnderTest,
  createBrowser,
  PASSWORD,
  setUpOwner,
  startConsole,
} from './console-under-test.ts';

const ATTACKER = { 'x-forwarded-for': '203.0.113.7' };
const OFFICE = { 'x-forwarded-for': '198.51.100.1' };

let started: ConsoleUnderTest;
let owner: Browser;
beforeAll(async () => {
  started = await startConsole({ TRUST_PROXY: '1' });
  owner = await setUpOwner(started);
});
afterAll(() => started.stop());

function logIn(
  browser: Browser,
  password: string,
  headers: Record<string, string>,
  name = 'Owner',
) {
  return browser.post('/api/login', { name, password }, headers);
}

describe('wrong passwords', () => {
  test('are answered alike for a name that exists and one that does not', async () => {
    const browser = createBrowser(started.url);
    const known = await logIn(browser, 'wrong', { 'x-forwarded-for': '192.0.2.1' });
    const unknown = await logIn(browser, 'wrong', { 'x-forwarded-for': '192.0.2.1' }, 'nobody');
    expect([known.status, known.body.code, known.body.error]).toEqual([
      ...[unknown.status, unknown.body.code, unknown.body.error],
    ]);
    expect(known.status).toBe(401);
  });

  test('wait at their address, while the operator logs in from another or with its browser', async () => {
    const attacker = createBrowser(started.url);
    const statuses: number[] = [];
    for (let n = 0; n < 8; n += 1) {
      statuses.push((await logIn(attacker, `guess ${n}`, ATTACKER)).status);
    }
    expect(statuses.slice(0, 5)).toEqual([401, 401, 401, 401, 401]);
    expect(statuses).toContain(429);
    const refused = await logIn(attacker, PASSWORD, ATTACKER);
    expect([refused.status, refused.body.code]).toEqual([429, 'TOO_MANY_ATTEMPTS']);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
    expect((await logIn(createBrowser(started.url), PASSWORD, OFFICE)).status).toBe(200);
    // Behind the same address as the attacker, in the browser that was logged in before.
    expect((await logIn(owner, PASSWORD, ATTACKER)).status).toBe(200);
  });

  test('are not in the audit log, which anybody could fill; logins are', async () => {
    const { body } = await owner.get('/api/audit?action=login');
    expect(body.items.length).toBeGreaterThan(0);
    const results = body.items.map(({ result }: { result: string }) => result);
    expect(new Set(results)).toEqual(new Set(['done']));
  });
});

describe('the back-off', () => {
  const client = { address: '203.0.113.7', knownBrowser: undefined };

  test('lets the right password in after the wait, however long wrong ones went on', () => {
    let now = 0;
    const backOff = createBackOff(() => now);
    let refused = 0;
    for (let n = 0; n < 10_000; n += 1) {
      now += 100;
      try {
        backOff.begin('owner', client);
      } catch {
        refused += 1;
      }
    }
    expect(refused).toBeGreaterThan(9_000);
    now += 30_001;
    expect(() => backOff.begin('owner', client).succeed()).not.toThrow();
  });

  test('slows one address that tries many names', () => {
    const backOff = createBackOff(() => 0);
    const attempts = Array.from({ length: 40 }, (_, n) => () => backOff.begin(`name${n}`, client));
    for (const attempt of attempts.slice(0, 30)) attempt();
    expect(attempts[30]).toThrow('Too many wrong passwords');
    expect(() => backOff.begin('name', { ...client, address: '198.51.100.1' })).not.toThrow();
  });
});
