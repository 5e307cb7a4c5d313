import { setImmediate } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
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
    const waiting = guess(5);
    expect((await logIn(createBrowser(started.url), PASSWORD, OFFICE)).status).toBe(200);
    // Behind the same address as the attacker, in the browser that was logged in before.
    expect((await logIn(owner, PASSWORD, ATTACKER)).status).toBe(200);
    expect((await waiting).status).toBe(401);
  });

  test('of strangers that never stop, each time at another address, keep no known browser out', async () => {
    const statuses: number[] = [];
    let isOver = false;
    const attack = async (_: unknown, at: number): Promise<void> => {
      for (let n = 0; !isOver; n += 1) {
        const headers = { 'x-forwarded-for': `198.18.${at}.${n % 250}` };
        const name = `name ${at} ${n}`;
        // An idle connection may be closed just when it is used again.
        const guess = logIn(createBrowser(started.url), 'guess', headers, name);
        statuses.push(await guess.then(({ status }) => status).catch(() => 0));
      }
    };
    const attackers = Promise.all(Array.from({ length: 60 }, attack));
    await until(() => statuses.includes(503), { what: 'the attackers fill the places' });
    const ofOwner: number[] = [];
    for (let n = 0; n < 5; n += 1)
      ofOwner.push((await until(() => logIn(owner, PASSWORD, OFFICE))).status);
    isOver = true;
    await attackers;
    expect(ofOwner).toEqual(Array(5).fill(200));
  });

  test('are not in the audit log, which an attacker could fill; logins are', async () => {
    const { body } = await owner.get('/api/audit?action=login');
    expect(body.items.length).toBeGreaterThan(0);
    const results = body.items.map(({ result }: { result: string }) => result);
    expect(new Set(results)).toEqual(new Set(['done']));
  });
});

/** Creates a clock that stands still, except when the test has time pass. */
function createTestClock() {
  const timers = new Set<{ at: number; run: () => void }>();
  let now = 0;
  return {
    now: () => now,
    after(ms: number, run: () => void) {
      const timer = { at: now + ms, run };
      timers.add(timer);
      return () => timers.delete(timer);
    },
    /** Has time pass, and lets everything continue that waits for it. */
    async pass(ms: number): Promise<void> {
      const end = now + ms;
      for (;;) {
        await setImmediate();
        const [next] = [...timers].filter(({ at }) => at <= end).sort((a, b) => a.at - b.at);
        if (next === undefined) break;
        timers.delete(next);
        now = Math.max(now, next.at);
        next.run();
      }
      now = end;
    },
  };
}

describe('the back-off', () => {
  const { signal } = new AbortController();
  const client = { address: '203.0.113.7', knownBrowser: undefined, signal };
  const TOO_MANY = 'Too many wrong passwords';
  let clock: ReturnType<typeof createTestClock>;
  let backOff: ReturnType<typeof createBackOff>;
  beforeEach(() => {
    clock = createTestClock();
    backOff = createBackOff(clock);
  });

  /** Expects that an attempt waits for the first delay. */
  async function expectDelay(attempt: Promise<Attempt>): Promise<void> {
    let hasBegun = false;
    void attempt.then(() => (hasBegun = true));
    await clock.pass(999);
    expect(hasBegun).toBe(false);
    await clock.pass(1);
    await attempt;
  }

  test.each([
    ['its address', () => client.address],
    ['other addresses', (n: number) => `198.18.${Math.floor(n / 250) % 250}.${n % 250}`],
  ])(
    'accepts the right password of a stranger although twenty attackers at %s never stop',
    async (_, addressOf) => {
      let guesses = 0;
      let isOver = false;
      const attack = async (): Promise<void> => {
        while (!isOver) {
          guesses += 1;
          const attempt = backOff.begin('owner', { ...client, address: addressOf(guesses) });
          await attempt.catch(() => undefined);
        }
      };
      const attackers = Promise.all(Array.from({ length: 20 }, attack));
      await clock.pass(60_000);
      expect(guesses).toBeGreaterThan(20);
      let attempt: Attempt | undefined;
      const logIn = async (): Promise<void> => {
        while (attempt === undefined && !isOver)
          attempt = await backOff.begin('owner', client).catch(() => undefined);
      };
      const loggedIn = logIn();
      // A draw of 21, hundreds of times.
      for (let turn = 0; attempt === undefined && turn < 1_000; turn += 1) await clock.pass(5_000);
      isOver = true;
      for (let turn = 0; turn < 25; turn += 1) await clock.pass(5_000);
      await Promise.all([attackers, loggedIn]);
      expect(attempt).toBeDefined();
    },
  );

  test('checks one password of an address per delay, however many are tried at once', async () => {
    let checked = 0;
    const tries = Array.from({ length: 2_000 }, () =>
      backOff.begin('owner', client).then(() => (checked += 1)),
    );
    const results = Promise.allSettled(tries);
    const counts: number[] = [];
    for (const ms of [999, 1, 1_999, 1, 3_999, 1, 4_999, 1, 4_999, 1]) {
      await clock.pass(ms);
      counts.push(checked);
    }
    expect(counts).toEqual([5, 6, 6, 7, 7, 8, 8, 9, 9, 10]);
    await clock.pass(20_000);
    const refused = (await results).filter((result) => result.status === 'rejected');
    expect(refused).toHaveLength(2_000 - checked);
    for (const { reason } of refused) expect(reason.message).toContain(TOO_MANY);
  });

  test('delays one address that tries many names', async () => {
    for (let n = 0; n < 30; n += 1) await backOff.begin(`name${n}`, client);
    await expectDelay(backOff.begin('name30', client));
    await backOff.begin('name', { ...client, address: '198.51.100.1' });
  });

  test('delays a name that strangers guess at changing addresses, and neither other names nor a known browser', async () => {
    const at = (n: number) => ({ ...client, address: `198.18.0.${n}` });
    for (let n = 0; n < 100; n += 1) await backOff.begin('owner', at(n));
    await expectDelay(backOff.begin('owner', at(100)));
    await backOff.begin('another', at(100));
    await backOff.begin('owner', { ...at(100), knownBrowser: 'key' });
  });

  test('counts no right passwords of strangers against their name', async () => {
    for (let n = 0; n < 300; n += 1) {
      const attempt = await backOff.begin('owner', { ...client, address: `198.18.1.${n % 250}` });
      attempt.succeed();
    }
  });

  test('does not count attempts without a check', async () => {
    for (let n = 0; n < 100; n += 1) (await backOff.begin('owner', client)).cancel();
  });

  test('ends the wait of a client that disconnects', async () => {
    for (let n = 0; n < 5; n += 1) await backOff.begin('owner', client);
    const leaving = new AbortController();
    const attempt = backOff.begin('owner', { ...client, signal: leaving.signal });
    leaving.abort();
    await expect(attempt).rejects.toThrow(TOO_MANY);
  });
});

test('turns are drawn at random among waiting attempts, of which there are at most 32', async () => {
  const clock = createTestClock();
  // The newest waiting attempt is drawn.
  const turns = createTurns(clock, () => 0.999);
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
  await clock.pass(1_000);
  expect(await Promise.all(results.slice(0, 32))).toEqual(Array(32).fill(true));
  expect(taken).toEqual(Array.from({ length: 32 }, (_, n) => 31 - n));
});

describe('the check of passwords', () => {
  const BUSY = { code: 'UNAVAILABLE' };
  let verify: (address: string, knownAs?: string) => Promise<boolean>;
  beforeEach(() => {
    const passwords = createPasswords();
    verify = (address, knownAs) => passwords.verify('wrong', undefined, { address, knownAs });
  });

  test('uses argon2id with 19 MiB and 2 passes', async () => {
    const hash = await createPasswords().hash(PASSWORD, { address: '', knownAs: undefined });
    expect(hash).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
  });

  test('runs for 34 strangers at once, at most two of one address, and refuses others until some have ended', async () => {
    const busy = Array.from({ length: 34 }, (_, n) => verify(`address ${n % 17}`));
    await expect(verify('address 0')).rejects.toMatchObject(BUSY);
    await expect(verify('another')).rejects.toMatchObject(BUSY);
    expect(new Set(await Promise.all(busy))).toEqual(new Set([false]));
    expect(await verify('another')).toBe(false);
    const two = [verify('address 0'), verify('address 0')];
    await expect(verify('address 0')).rejects.toMatchObject(BUSY);
    expect(await verify('another')).toBe(false);
    await Promise.all(two);
  });

  test('keeps places for known clients, also behind an address that has its two, and at most two for each', async () => {
    const busy = Array.from({ length: 120 }, (_, n) => verify(`192.0.2.${n}`));
    const refused = Promise.allSettled(busy);
    const known = [verify('192.0.2.1', 'ann'), verify('192.0.2.1', 'ann')];
    await expect(verify('192.0.2.1', 'ann')).rejects.toMatchObject(BUSY);
    expect(await verify('192.0.2.1', 'bob')).toBe(false);
    expect(await Promise.all(known)).toEqual([false, false]);
    const results = await refused;
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(34);
  });

  test('takes the addresses of an IPv6 network of 64 bits as one', async () => {
    const busy = [verify('2001:db8::1'), verify('2001:db8::2')];
    await expect(verify('2001:db8::3')).rejects.toMatchObject(BUSY);
    expect(await verify('2001:db8:0:1::1')).toBe(false);
    await Promise.all(busy);
  });
});
