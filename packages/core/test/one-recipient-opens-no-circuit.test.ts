import { describe, expect, test } from '@jest/globals';
import { createCircuit, REFUSED_ROUNDS, SEVERAL } from '../src/circuit.ts';
import { parseRetryAfterMs } from '../src/retry-after.ts';
import { computeRetryDelayMs } from '../src/retry-policy.ts';
import { type Permit, REFUSED_ROUND_MS } from '../src/troubled-recipients.ts';

const MAX_RANDOM = (): number => 1;
const MIN_RANDOM = (): number => 0;
const MANY = 50;

/** Creates a circuit with a clock that the test advances, and the reports by recipient. */
function createCircuitUnderTest() {
  let now = 0;
  const circuit = createCircuit(() => now, MAX_RANDOM);
  function send(recipient: string): Permit {
    const permit = circuit.acquire(recipient);
    if (typeof permit === 'number') throw new Error(`${recipient} waits for ${permit} ms`);
    return permit;
  }
  return {
    circuit,
    send,
    advance(ms: number): void {
      now += ms;
    },
    accept: (recipient: string) => circuit.onAnswered(send(recipient), true),
    /** The device is gone, or the push invalid. */
    reject: (recipient: string) => circuit.onAnswered(send(recipient), false),
    fail: (recipient: string, retryAfterMs?: number) =>
      circuit.onFailure(send(recipient), retryAfterMs),
    refuse: (recipient: string) => circuit.onRefusal(send(recipient)),
  };
}

type CircuitUnderTest = ReturnType<typeof createCircuitUnderTest>;

/** Opens a circuit by answers to different recipients. */
function openBy(under: CircuitUnderTest, answer: 'fail' | 'refuse'): string[] {
  const recipients = Array.from({ length: SEVERAL }, (_, index) => `opener ${index}`);
  for (const recipient of recipients) under[answer](recipient);
  return recipients;
}

describe.each(['fail', 'refuse'] as const)('recipients that %s', (answer) => {
  test('several in a row open the circuit', () => {
    const under = createCircuitUnderTest();
    openBy(under, answer);
    expect(under.circuit.state()).toBe('open');
    expect(under.circuit.acquire('another')).toBeGreaterThan(0);
  });

  test('one of them never does, however often it is sent to', () => {
    const under = createCircuitUnderTest();
    for (let n = 0; n < MANY; n += 1) {
      under[answer]('bad');
      under.advance(REFUSED_ROUND_MS);
      expect(under.circuit.state()).toBe('closed');
    }
    under.accept('good');
  });

  test('several with an accepted request between them do not', () => {
    const under = createCircuitUnderTest();
    for (let n = 0; n < MANY; n += 1) {
      under[answer](`bad ${n}`);
      under.accept('good');
    }
    expect(under.circuit.state()).toBe('closed');
  });

  test('those whose trouble is known to be their own do not count again', () => {
    const under = createCircuitUnderTest();
    const bad = ['a', 'b', 'c', 'd'];
    for (const recipient of bad.slice(0, 2)) under[answer](recipient);
    under.accept('good');
    for (const recipient of bad.slice(2)) under[answer](recipient);
    under.accept('good');
    under.advance(REFUSED_ROUND_MS);
    for (const recipient of bad) under[answer](recipient);
    expect(under.circuit.state()).toBe('closed');
  });

  test('an accepted request that was sent after theirs closes the circuit at once', () => {
    const under = createCircuitUnderTest();
    const bad = ['a', 'b', 'c'].map(under.send);
    const good = under.send('good');
    for (const permit of bad)
      answer === 'fail' ? under.circuit.onFailure(permit) : under.circuit.onRefusal(permit);
    expect(under.circuit.state()).toBe('open');
    under.circuit.onAnswered(good, true);
    expect(under.circuit.state()).toBe('closed');
  });

  test('an accepted request that was sent before theirs tells nothing', () => {
    const under = createCircuitUnderTest();
    const early = under.send('early');
    openBy(under, answer);
    under.circuit.onAnswered(early, true);
    expect(under.circuit.state()).toBe('open');
  });

  test('those that opened the circuit leave the probe to others that wait', () => {
    const under = createCircuitUnderTest();
    const [opener = ''] = openBy(under, answer);
    under.advance(Number(under.circuit.acquire('good')));
    // It comes back soon, in case the probe succeeds.
    under.advance(Number(under.circuit.acquire(opener)));
    expect(under.circuit.state()).toBe('half-open');
    expect(under.circuit.acquire(opener)).toBeLessThan(REFUSED_ROUND_MS / 4);
    under.accept('good');
    expect(under.circuit.state()).toBe('closed');
  });

  test('they probe when no other waits, or none has probed for one more period', () => {
    for (const othersWait of [false, true]) {
      const under = createCircuitUnderTest();
      const [opener = ''] = openBy(under, answer);
      if (othersWait) under.circuit.acquire('good');
      under.advance(REFUSED_ROUND_MS);
      if (othersWait) under.advance(REFUSED_ROUND_MS);
      under.accept(opener);
      expect(under.circuit.state()).toBe('closed');
    }
  });
});

test('after the open period one request probes and the others wait', () => {
  const under = createCircuitUnderTest();
  openBy(under, 'fail');
  under.advance(60_000);
  expect(under.circuit.state()).toBe('half-open');
  const probe = under.send('probe');
  expect(under.circuit.acquire('another')).toEqual(expect.any(Number));
  expect(under.circuit.state()).toBe('half-open');
  under.circuit.onAnswered(probe, true);
  expect(under.circuit.state()).toBe('closed');
  under.accept('another');
});

test('each failed probe doubles the open period, up to a minute', () => {
  const under = createCircuitUnderTest();
  openBy(under, 'fail');
  const openPeriods = Array.from({ length: 8 }, (_, index) => {
    const openForMs = Number(under.circuit.acquire(`probe ${index}`));
    under.advance(openForMs);
    under.fail(`probe ${index}`);
    return openForMs;
  });
  expect(openPeriods).toEqual([2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]);
});

test('failures of requests sent before the opening do not prolong it', () => {
  const under = createCircuitUnderTest();
  const permits = Array.from({ length: MANY }, (_, index) => under.send(`early ${index}`));
  for (const permit of permits) under.circuit.onFailure(permit);
  under.advance(2_000);
  under.accept('probe');
  expect(under.circuit.state()).toBe('closed');
});

test('a Retry-After is of its recipient, and of all when several have one: the shortest', () => {
  const under = createCircuitUnderTest();
  under.fail('a', 90_000);
  under.fail('b', 600_000);
  expect(under.circuit.state()).toBe('closed');
  under.fail('c', 90_000);
  expect(under.circuit.acquire('another')).toBe(99_000);

  const other = createCircuitUnderTest();
  other.fail('a', 600_000);
  other.fail('b');
  other.fail('c', 600_000);
  expect(other.circuit.acquire('another')).toBe(2_000);
});

test('a single probe with a Retry-After keeps no circuit open for it', () => {
  const under = createCircuitUnderTest();
  for (const recipient of ['a', 'b', 'c']) under.fail(recipient, 2 * 3_600_000);
  under.advance(Number(under.circuit.acquire('another')));
  // The trouble of the others is forgotten by then.
  under.fail('probe', 86_400_000);
  expect(under.circuit.acquire('another')).toBeLessThanOrEqual(60_000);
});

test('others come back soon while requests in flight may still close the circuit', () => {
  const under = createCircuitUnderTest();
  const bad = ['a', 'b', 'c'].map(under.send);
  const good = under.send('good');
  for (const permit of bad) under.circuit.onRefusal(permit);
  expect(under.circuit.acquire('waiting')).toBeLessThan(1_000);
  under.circuit.onAnswered(good, false);
  expect(under.circuit.acquire('waiting')).toBe(REFUSED_ROUND_MS);
});

test('a recipient whose probe has failed leaves the next one to the others, also to those with trouble', () => {
  const under = createCircuitUnderTest();
  const [first = '', second = ''] = openBy(under, 'refuse');
  under.advance(REFUSED_ROUND_MS);
  under.refuse(first);
  under.advance(REFUSED_ROUND_MS);
  expect(under.circuit.acquire(first)).toBeGreaterThan(0);
  under.accept(second);
  expect(under.circuit.state()).toBe('closed');
});

test('a recipient with failures gets one request at a time, and rests between them', () => {
  const under = createCircuitUnderTest();
  under.fail('hanging');
  expect(under.circuit.acquire('hanging')).toBeGreaterThan(0);
  under.advance(REFUSED_ROUND_MS);
  const permit = under.send('hanging');
  expect(under.circuit.acquire('hanging')).toBeGreaterThan(0);
  under.circuit.release(permit);
  under.send('hanging');
});

test('a probe that told nothing is replaced by the next request', () => {
  const under = createCircuitUnderTest();
  openBy(under, 'fail');
  under.advance(2_000);
  under.circuit.release(under.send('unsent'));
  under.accept('another');
  expect(under.circuit.state()).toBe('closed');
});

describe('a refusal', () => {
  test('concerns the credential when several are refused, and with each failed probe', () => {
    const under = createCircuitUnderTest();
    under.accept('good');
    expect(under.refuse('a').concernsCredential).toBe(false);
    expect(under.refuse('b').concernsCredential).toBe(false);
    expect(under.refuse('c').concernsCredential).toBe(true);
    under.advance(REFUSED_ROUND_MS);
    expect(under.refuse('probe')).toEqual({ concernsCredential: true, isFinal: false });
    expect(under.circuit.acquire('another')).toBe(REFUSED_ROUND_MS);
  });

  test('concerns the credential when nothing was ever accepted, or nothing for a round', () => {
    const fresh = createCircuitUnderTest();
    expect(fresh.refuse('only').concernsCredential).toBe(true);

    const under = createCircuitUnderTest();
    under.accept('only');
    expect(under.refuse('only').concernsCredential).toBe(false);
    under.advance(REFUSED_ROUND_MS);
    expect(under.refuse('only').concernsCredential).toBe(true);
  });

  test('lets its recipient rest for a round, and no other', () => {
    const under = createCircuitUnderTest();
    under.refuse('bad');
    expect(under.circuit.acquire('bad')).toBe(REFUSED_ROUND_MS);
    under.accept('good');
    under.advance(REFUSED_ROUND_MS);
    under.accept('bad');
  });

  test('is final after a few rounds in each of which others were accepted', () => {
    const under = createCircuitUnderTest();
    const finals = Array.from({ length: REFUSED_ROUNDS + 2 }, () => {
      const { isFinal, concernsCredential } = under.refuse('bad');
      under.accept('good');
      under.advance(REFUSED_ROUND_MS);
      return [isFinal, concernsCredential];
    });
    const waits = Array.from({ length: REFUSED_ROUNDS }, (_, round) => [false, round === 0]);
    expect(finals).toEqual([...waits, [true, false], [true, false]]);
    // Its next push fails without further rounds, but not while nothing else is accepted.
    expect(under.refuse('bad').isFinal).toBe(true);
    expect(under.refuse('bad').isFinal).toBe(false);
    under.advance(REFUSED_ROUND_MS);
    under.accept('bad');
    expect(under.refuse('bad').isFinal).toBe(false);
  });

  test('is not final while the credential is refused for all', () => {
    const under = createCircuitUnderTest();
    under.accept('good');
    for (let round = 0; round < MANY; round += 1) {
      expect(under.refuse('only').isFinal).toBe(false);
      under.advance(REFUSED_ROUND_MS);
    }
  });

  test('of many requests at once counts as one round, and then one is in flight at a time', () => {
    const under = createCircuitUnderTest();
    const permits = [under.send('bad'), under.send('bad'), under.send('bad'), under.send('bad')];
    under.accept('good');
    const finals = permits.map((permit) => under.circuit.onRefusal(permit).isFinal);
    expect(finals).toEqual(permits.map(() => false));
    under.advance(REFUSED_ROUND_MS);
    under.send('bad');
    expect(under.circuit.acquire('bad')).toBeGreaterThan(0);
    under.accept('good');
  });

  test('is not contradicted by devices that are gone, or pushes that are invalid', () => {
    const under = createCircuitUnderTest();
    for (let round = 0; round < MANY; round += 1) {
      for (const live of ['a', 'b', 'c', 'd']) {
        const permit = under.circuit.acquire(live);
        if (typeof permit !== 'number')
          expect(under.circuit.onRefusal(permit)).toMatchObject({ isFinal: false });
        const dead = under.circuit.acquire(`dead ${round} ${live}`);
        if (typeof dead !== 'number') under.circuit.onAnswered(dead, false);
      }
      under.advance(REFUSED_ROUND_MS / 2);
    }
    expect(under.circuit.state()).not.toBe('closed');
  });

  test('is seen for all, though some were once refused alone', () => {
    const under = createCircuitUnderTest();
    const recipients = ['a', 'b', 'c', 'd'];
    const permits = recipients.map(under.send);
    const last = under.send('last');
    for (const permit of permits) under.circuit.onRefusal(permit);
    under.circuit.onAnswered(last, true);
    const reports = [];
    for (let round = 0; round < 4; round += 1) {
      under.advance(2 * REFUSED_ROUND_MS);
      for (const recipient of recipients) {
        const permit = under.circuit.acquire(recipient);
        if (typeof permit !== 'number') reports.push(under.circuit.onRefusal(permit));
      }
    }
    expect(reports.some(({ concernsCredential }) => concernsCredential)).toBe(true);
    expect(reports.some(({ isFinal }) => isFinal)).toBe(false);
  });
});

test('delays lie in the upper half below a ceiling that doubles from one second to ten minutes', () => {
  const retries = [0, 1, 2, 9, 10, 1_000];
  const longest = retries.map((n) => computeRetryDelayMs(n, undefined, MAX_RANDOM));
  expect(longest).toEqual([1_000, 2_000, 4_000, 512_000, 600_000, 600_000]);
  const shortest = retries.map((n) => computeRetryDelayMs(n, undefined, MIN_RANDOM));
  expect(shortest).toEqual(longest.map((ms) => ms / 2));
});

test.each([undefined, 0, 500])('the gaps grow under a Retry-After of %j ms', (retryAfterMs) => {
  const gaps = Array.from({ length: 10 }, (_, retries) =>
    computeRetryDelayMs(retries, retryAfterMs, retries % 2 === 0 ? MAX_RANDOM : MIN_RANDOM),
  );
  for (const [index, gap] of gaps.entries())
    expect(gap).toBeGreaterThanOrEqual(gaps[index - 1] ?? 1);
  expect(gaps[9]).toBeGreaterThanOrEqual(256_000);
});

test('Retry-After is the shortest delay, and a day the longest that is honoured', () => {
  expect(computeRetryDelayMs(0, 30_000, MIN_RANDOM)).toBe(30_000);
  expect(computeRetryDelayMs(0, 30_000, MAX_RANDOM)).toBe(33_000);
  expect(computeRetryDelayMs(0, 10 * 86_400_000, MIN_RANDOM)).toBe(86_400_000);
  expect(computeRetryDelayMs(20, 30_000, MIN_RANDOM)).toBe(300_000);
});

const NOW = Date.UTC(2030, 0, 1);

test.each([
  ['120', 120_000],
  ['0', 0],
  ['Tue, 01 Jan 2030 00:01:00 GMT', 60_000],
  ['Mon, 31 Dec 2029 00:00:00 GMT', 0],
  ['Tuesday, 01-Jan-30 00:01:00 GMT', 60_000],
  ['Tue Jan  1 00:01:00 2030', 60_000],
  ['864000', 864_000_000],
  ['9'.repeat(400), 999_999_999_999_000],
  ['0000000000000005', 5_000],
  ['soon', undefined],
  ['-1', undefined],
  ['1.5', undefined],
  ['2030', 2_030_000],
  ['2030-01-01T00:01:00Z', undefined],
  ['Tue Jan  1 00:01:00 2030 GMT', undefined],
  ['Tue, 01 Jan 2030 00:01:00', undefined],
  ['Tue, 01 Jan 2030 00:01:00 +0100', undefined],
  ['Tue, 01 Jan 2030 (soon)', undefined],
  ['Tue, 99 Jan 2030 00:01:00 GMT', undefined],
  ['', undefined],
  [undefined, undefined],
  [['1'], undefined],
])('Retry-After %j is %j ms', (header, expected) => {
  expect(parseRetryAfterMs(header, NOW)).toBe(expected);
});
