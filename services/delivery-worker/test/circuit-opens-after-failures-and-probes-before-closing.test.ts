import { expect, test } from '@jest/globals';
import {
  type Circuit,
  computeRetryDelayMs,
  createCircuit,
  type Permit,
} from '../src/deliver/retry-policy.ts';

const MAX_RANDOM = (): number => 1;

/** Creates a circuit with a clock that the test advances. */
function createCircuitWithClock(): { circuit: Circuit; advance(ms: number): void } {
  let now = 0;
  const circuit = createCircuit(() => now, MAX_RANDOM);
  return {
    circuit,
    advance: (ms) => {
      now += ms;
    },
  };
}

function acquirePermit(circuit: Circuit): Permit {
  const permit = circuit.acquire();
  if (typeof permit === 'number') throw new Error(`the circuit is open for ${permit} ms`);
  return permit;
}

function fail(circuit: Circuit, times: number): void {
  const permits = Array.from({ length: times }, () => acquirePermit(circuit));
  for (const permit of permits) circuit.onFailure(permit);
}

test('the circuit opens after five failures in a row, but not with a success between them', () => {
  const { circuit } = createCircuitWithClock();
  fail(circuit, 4);
  circuit.onSuccess(acquirePermit(circuit));
  fail(circuit, 4);
  expect(circuit.acquire()).toEqual({ generation: expect.any(Number) });
  fail(circuit, 1);
  expect(circuit.acquire()).toBeGreaterThan(0);
});

test('after the open period one request probes and the others wait', () => {
  const { circuit, advance } = createCircuitWithClock();
  fail(circuit, 5);
  advance(60_000);
  const probe = acquirePermit(circuit);
  expect(circuit.acquire()).toEqual(expect.any(Number));
  circuit.onSuccess(probe);
  acquirePermit(circuit);
});

test('the state is half-open from the end of the open period to the response of the probe', () => {
  const { circuit, advance } = createCircuitWithClock();
  expect(circuit.state()).toBe('closed');
  fail(circuit, 5);
  expect(circuit.state()).toBe('open');
  advance(60_000);
  expect(circuit.state()).toBe('half-open');
  const probe = acquirePermit(circuit);
  expect(circuit.state()).toBe('half-open');
  circuit.onSuccess(probe);
  expect(circuit.state()).toBe('closed');
});

test('each failed probe doubles the open period, up to a minute', () => {
  const { circuit, advance } = createCircuitWithClock();
  fail(circuit, 5);
  const openPeriods = Array.from({ length: 8 }, () => {
    const openForMs = Number(circuit.acquire());
    advance(openForMs);
    fail(circuit, 1);
    return openForMs;
  });
  expect(openPeriods).toEqual([2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]);
});

test('failures of requests sent before the opening are ignored', () => {
  const { circuit, advance } = createCircuitWithClock();
  const earlyPermits = Array.from({ length: 50 }, () => acquirePermit(circuit));
  for (const permit of earlyPermits) circuit.onFailure(permit);
  advance(2_000);
  circuit.onSuccess(acquirePermit(circuit));
  fail(circuit, 4);
  acquirePermit(circuit);
});

test('a Retry-After opens the circuit at once for at least that long', () => {
  const { circuit, advance } = createCircuitWithClock();
  circuit.onFailure(acquirePermit(circuit), 90_000);
  advance(90_000);
  expect(circuit.acquire()).toEqual(expect.any(Number));
  advance(10_000);
  acquirePermit(circuit);
});

test('a refused credential opens the circuit for a minute and is reported once', () => {
  const { circuit } = createCircuitWithClock();
  const [first, second] = [acquirePermit(circuit), acquirePermit(circuit)];
  expect(circuit.onAuthError(first)).toBe(60_000);
  expect(circuit.onAuthError(second)).toBeUndefined();
  expect(circuit.acquire()).toBe(60_000);
});

test('a probe that was never sent is replaced by the next request', () => {
  const { circuit, advance } = createCircuitWithClock();
  fail(circuit, 5);
  advance(2_000);
  circuit.release(acquirePermit(circuit));
  acquirePermit(circuit);
});

test('delays are random below a ceiling that doubles from one second to ten minutes', () => {
  const delays = [0, 1, 2, 9, 10, 1_000].map((retries) =>
    computeRetryDelayMs(retries, undefined, MAX_RANDOM),
  );
  expect(delays).toEqual([1_000, 2_000, 4_000, 512_000, 600_000, 600_000]);
  expect(computeRetryDelayMs(5, undefined, () => 0)).toBe(0);
});

test('Retry-After is the shortest delay, and a day the longest that is honoured', () => {
  expect(computeRetryDelayMs(0, 30_000, () => 0)).toBe(30_000);
  expect(computeRetryDelayMs(0, 30_000, MAX_RANDOM)).toBe(33_000);
  expect(computeRetryDelayMs(0, 1e12, () => 0)).toBe(86_400_000);
});
