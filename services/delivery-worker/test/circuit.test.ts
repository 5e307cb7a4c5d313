import { expect, test } from '@jest/globals';
import { type Circuit, createCircuit, type Leave } from '../src/deliver/circuit.ts';
import { retryDelayMs } from '../src/deliver/retry.ts';

const MOST = (): number => 1;

/** A circuit with a clock that the test moves. */
function circuitWithClock(): { circuit: Circuit; pass(ms: number): void } {
  let now = 0;
  const circuit = createCircuit(() => now, MOST);
  return {
    circuit,
    pass: (ms) => {
      now += ms;
    },
  };
}

function leaveOf(circuit: Circuit): Leave {
  const leave = circuit.enter();
  if (typeof leave === 'number') throw new Error(`the line rests for ${leave} ms`);
  return leave;
}

function fail(circuit: Circuit, times: number): void {
  const leaves = Array.from({ length: times }, () => leaveOf(circuit));
  for (const leave of leaves) circuit.failed(leave);
}

test('a line rests after five failures in a row, and not when a success comes between', () => {
  const { circuit } = circuitWithClock();
  fail(circuit, 4);
  circuit.worked(leaveOf(circuit));
  fail(circuit, 4);
  expect(circuit.enter()).toEqual({ era: expect.any(Number) });
  fail(circuit, 1);
  expect(circuit.enter()).toBeGreaterThan(0);
});

test('after the rest one request probes; the others wait for what it finds', () => {
  const { circuit, pass } = circuitWithClock();
  fail(circuit, 5);
  pass(60_000);
  const probe = leaveOf(circuit);
  expect(circuit.enter()).toEqual(expect.any(Number));
  circuit.worked(probe);
  leaveOf(circuit);
});

test('each probe that fails doubles the rest, up to a minute', () => {
  const { circuit, pass } = circuitWithClock();
  fail(circuit, 5);
  const rests = Array.from({ length: 8 }, () => {
    const restMs = Number(circuit.enter());
    pass(restMs);
    fail(circuit, 1);
    return restMs;
  });
  expect(rests).toEqual([2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]);
});

test('what was sent before the rest and fails during it says nothing new', () => {
  const { circuit, pass } = circuitWithClock();
  const early = Array.from({ length: 50 }, () => leaveOf(circuit));
  for (const leave of early) circuit.failed(leave);
  pass(2_000);
  circuit.worked(leaveOf(circuit));
  fail(circuit, 4);
  leaveOf(circuit);
});

test('a pause that the provider asked for begins at once and is kept', () => {
  const { circuit, pass } = circuitWithClock();
  circuit.failed(leaveOf(circuit), 90_000);
  pass(90_000);
  expect(circuit.enter()).toEqual(expect.any(Number));
  pass(10_000);
  leaveOf(circuit);
});

test('a refused credential rests a minute, told once', () => {
  const { circuit } = circuitWithClock();
  const [one, two] = [leaveOf(circuit), leaveOf(circuit)];
  expect(circuit.refused(one)).toBe(60_000);
  expect(circuit.refused(two)).toBeUndefined();
  expect(circuit.enter()).toBe(60_000);
});

test('a probe that was never sent leaves the place to the next', () => {
  const { circuit, pass } = circuitWithClock();
  fail(circuit, 5);
  pass(2_000);
  circuit.left(leaveOf(circuit));
  leaveOf(circuit);
});

test('waits double from one second to ten minutes, below which chance decides', () => {
  const waits = [0, 1, 2, 9, 10, 1_000].map((retries) => retryDelayMs(retries, undefined, MOST));
  expect(waits).toEqual([1_000, 2_000, 4_000, 512_000, 600_000, 600_000]);
  expect(retryDelayMs(5, undefined, () => 0)).toBe(0);
});

test('what the provider asked for is the least, and a day the most that is believed', () => {
  expect(retryDelayMs(0, 30_000, () => 0)).toBe(30_000);
  expect(retryDelayMs(0, 30_000, MOST)).toBe(33_000);
  expect(retryDelayMs(0, 1e12, () => 0)).toBe(86_400_000);
});
