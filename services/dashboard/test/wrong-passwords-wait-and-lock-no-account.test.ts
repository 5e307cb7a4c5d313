import { setImmediate } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import { type Attempt, createBackOff } from '../src/login/back-off.ts';
import { createPasswords } from '../src/login/passwords.ts';
import { createTurns } from '../src/login/turns.ts';
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
  test('get the same response for a name that exists and one that does not', async () => {
    const browser = createBrowser(started.url);
    const known = await logIn(browser, 'wrong', { 'x-forwarded-for': '192.0.2.1' });
    const unknown = await logIn(browser, 'wrong', { 'x-forwarded-for': '192.0.2.1' }, 'nobody');
    expect([known.status, known.body.code, known.body.error]).toEqual([
      ...[unknown.status, unknown.body.code, unknown.body.error],
    ]);
    expect(known.status).toBe(401);
  });

  test('delay their address, while the operator logs in from another one or with its own browser', async () => {
    const attacker = createBrowser(started.url);
    const guess = (n: number) => logIn(attacker, `guess ${n}`, ATTACKER);
    for (let n = 0; n < 5; n += 1) expect((await guess(n)).status).toBe(401);
    // It waits for its turn.
    const isOver = guess(5).then(() => true);
    expect((await logIn(createBrowser(started.url), PASSWORD, OFFICE)).status).toBe(200);
    // Behind the same address as the attacker, in the browser that was logged in before.
    expect((await logIn(owner, PASSWORD, ATTACKER)).status).toBe(200);
    await isOver;
  });

  test('delay the right password in a new browser behind their address, and do not reject it', async () => {
    const shared = { 'x-forwarded-for': '203.0.113.8' };
    const attacker = createBrowser(started.url);
    for (let n = 0; n < 5; n += 1) await logIn(attacker, `guess ${n}`, shared);
    const guess = logIn(attacker, 'guess 5', shared);
    expect((await logIn(createBrowser(started.url), PASSWORD, shared)).status).toBe(200);
    expect((await guess).status).toBe(401);
  });

  test('of 60 clients that never stop, each time at another address, keep no known browser out', async () => {
    const stopping = new AbortController();
    let sent = 0;
    const attack = async (): Promise<void> => {
      while (!stopping.signal.aborted) {
        sent += 1;
        const address = `198.18.${Math.floor(sent / 250)}.${sent % 250}`;
        const headers = { 'x-forwarded-for': address };
        await logIn(createBrowser(started.url), 'guess', headers, `name ${sent}`);
      }
    };
    const attackers = Array.from({ length: 60 }, attack);
    await until(() => sent > 200, { what: 'the attackers fill the places' });
    const statuses: number[] = [];
    for (let n = 0; n < 5; n += 1) statuses.push((await logIn(owner, PASSWORD, OFFICE)).status);
    stopping.abort();
    await Promise.all(attackers);
    expect(statuses).toEqual(Array(5).fill(200));
  });

  test('are not in the audit log, which an attacker could fill; logins are', async () => {
    const { body } = await owner.get('/api/audit?action=login');
    expect(body.items.length).toBeGreaterThan(0);
    const results = body.items.map(({ result }: { result: string }) => result);
    expect(new Set(results)).toEqual(new Set(['done']));
  });
});

describe('the back-off', () => {
  const client = {
    ...{ address: '203.0.113.7', knownBrowser: undefined },
    signal: new AbortController().signal,
  };
  const short = { firstWaitMs: 1, maxWaitMs: 4, turnTimeoutMs: 200 };
  const noTurn = { firstWaitMs: 60_000, maxWaitMs: 60_000, turnTimeoutMs: 1 };

  test('accepts the right password although twenty attackers at its address never stop', async () => {
    const backOff = createBackOff(short);
    const stopping = new AbortController();
    let guesses = 0;
    const attack = async (): Promise<void> => {
      while (!stopping.signal.aborted)
        await backOff.begin('owner', client).then(
          () => (guesses += 1),
          () => undefined,
        );
    };
    const attackers = Array.from({ length: 20 }, attack);
    await until(() => guesses > 50, { what: 'the first guesses have run' });
    let tries = 0;
    let attempt: Attempt | undefined;
    while (attempt === undefined && tries < 50) {
      tries += 1;
      attempt = await backOff.begin('owner', client).catch(() => undefined);
    }
    attempt?.succeed();
    expect(attempt).toBeDefined();
    stopping.abort();
    await Promise.all(attackers);
  });

  test('checks one password of an address per delay, however many are tried at once', async () => {
    const backOff = createBackOff(noTurn);
    const tries = Array.from({ length: 2_000 }, () => backOff.begin('owner', client));
    const results = await Promise.allSettled(tries);
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(5);
  });

  test('delays one address that tries many names', async () => {
    const backOff = createBackOff(noTurn);
    for (let n = 0; n < 30; n += 1) await backOff.begin(`name${n}`, client);
    await expect(backOff.begin('name30', client)).rejects.toThrow('Too many wrong passwords');
    await backOff.begin('name', { ...client, address: '198.51.100.1' });
  });

  test('delays a name that strangers guess at changing addresses, and neither other names nor a known browser', async () => {
    const backOff = createBackOff(noTurn);
    const at = (n: number) => ({ ...client, address: `198.18.0.${n}` });
    for (let n = 0; n < 100; n += 1) await backOff.begin('owner', at(n));
    await expect(backOff.begin('owner', at(100))).rejects.toThrow('Too many wrong passwords');
    await backOff.begin('another', at(100));
    await backOff.begin('owner', { ...at(100), knownBrowser: 'key' });
  });

  test('accepts the right password of a stranger although twenty addresses guess the name and never stop', async () => {
    const backOff = createBackOff(short);
    const stopping = new AbortController();
    let guesses = 0;
    const attack = async (): Promise<void> => {
      while (!stopping.signal.aborted) {
        guesses += 1;
        const address = `198.18.${Math.floor(guesses / 250)}.${guesses % 250}`;
        await backOff.begin('owner', { ...client, address }).catch(() => undefined);
        await setImmediate();
      }
    };
    const attackers = Array.from({ length: 20 }, attack);
    await until(() => guesses > 200, { what: 'the guesses of the name wait' });
    let tries = 0;
    let attempt: Attempt | undefined;
    while (attempt === undefined && tries < 50) {
      tries += 1;
      attempt = await backOff.begin('owner', client).catch(() => undefined);
    }
    attempt?.succeed();
    expect(attempt).toBeDefined();
    stopping.abort();
    await Promise.all(attackers);
  });

  test('counts no right passwords of strangers against their name', async () => {
    const backOff = createBackOff(noTurn);
    for (let n = 0; n < 300; n += 1) {
      const attempt = await backOff.begin('owner', { ...client, address: `198.18.1.${n % 250}` });
      attempt.succeed();
    }
  });

  test('does not count attempts without a check', async () => {
    const backOff = createBackOff(noTurn);
    for (let n = 0; n < 100; n += 1) (await backOff.begin('owner', client)).cancel();
  });

  test('ends the wait of a client that disconnects', async () => {
    const backOff = createBackOff({ ...noTurn, turnTimeoutMs: 60_000 });
    for (let n = 0; n < 5; n += 1) await backOff.begin('owner', client);
    const leaving = new AbortController();
    const attempt = backOff.begin('owner', { ...client, signal: leaving.signal });
    leaving.abort();
    await expect(attempt).rejects.toThrow('Too many wrong passwords');
  });
});

describe('turns', () => {
  test('are drawn at random among waiting attempts, of which there are at most 32', async () => {
    // The newest waiting attempt is drawn.
    const turns = createTurns(() => 0.999);
    let isFree = false;
    const taken: number[] = [];
    const take = (n: number) =>
      turns.take('key', {
        readWait: () => (isFree ? 0 : 5),
        begin: () => void taken.push(n),
        signal: new AbortController().signal,
      });
    const results = Array.from({ length: 34 }, (_, n) => take(n));
    expect(await Promise.all([results[32], results[33]])).toEqual([false, false]);
    isFree = true;
    expect(await Promise.all(results.slice(0, 32))).toEqual(Array(32).fill(true));
    expect(taken).toEqual(Array.from({ length: 32 }, (_, n) => 31 - n));
  });
});

describe('the check of passwords', () => {
  const stranger = (address: string) => ({ address, knownAs: undefined });

  test('uses argon2id with 19 MiB and 2 passes', async () => {
    const hash = await createPasswords().hash(PASSWORD, stranger('192.0.2.1'));
    expect(hash).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
  });

  test('runs for 34 strangers at once, at most two of one address, and refuses others until some have ended', async () => {
    const passwords = createPasswords();
    const verify = (address: string) => passwords.verify('wrong', undefined, stranger(address));
    const busy = Array.from({ length: 34 }, (_, n) => verify(`address ${n % 17}`));
    await expect(verify('address 0')).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    await expect(verify('another')).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    expect(new Set(await Promise.all(busy))).toEqual(new Set([false]));
    expect(await verify('another')).toBe(false);
    const two = [verify('address 0'), verify('address 0')];
    await expect(verify('address 0')).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    expect(await verify('another')).toBe(false);
    await Promise.all(two);
  });

  test('keeps places for known clients, also behind an address that has its two, and at most two for each', async () => {
    const passwords = createPasswords();
    const verify = (address: string, knownAs?: string) =>
      passwords.verify('wrong', undefined, { address, knownAs });
    const busy = Array.from({ length: 120 }, (_, n) => verify(`192.0.2.${n}`));
    const refused = Promise.allSettled(busy);
    const known = [verify('192.0.2.1', 'ann'), verify('192.0.2.1', 'ann')];
    await expect(verify('192.0.2.1', 'ann')).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    expect(await verify('192.0.2.1', 'bob')).toBe(false);
    expect(await Promise.all(known)).toEqual([false, false]);
    const results = await refused;
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(34);
  });

  test('takes the addresses of an IPv6 network of 64 bits as one', async () => {
    const passwords = createPasswords();
    const verify = (address: string) => passwords.verify('wrong', undefined, stranger(address));
    const busy = [verify('2001:db8::1'), verify('2001:db8::2')];
    await expect(verify('2001:db8::3')).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    expect(await verify('2001:db8:0:1::1')).toBe(false);
    await Promise.all(busy);
  });
});
