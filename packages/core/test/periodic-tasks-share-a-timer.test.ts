import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import { startInterval } from '../src/intervals.ts';

const INTERVAL_MS = 40;

const stops: (() => void)[] = [];
afterEach(() => {
  for (const stop of stops.splice(0)) stop();
});

/** Records the turns of the event loop in which a task is called, by the number of the timer's turn. */
function startTask(turns: number[], intervalMs: number, turn: () => number): void {
  stops.push(startInterval(() => void turns.push(turn()), intervalMs));
}

test('tasks that were started at different times run in the same turn', async () => {
  let turn = 0;
  let isCounted = false;
  const countTurn = (): number => {
    if (!isCounted) {
      turn += 1;
      isCounted = true;
      setImmediate(() => {
        isCounted = false;
      });
    }
    return turn;
  };
  const [often, seldom]: [number[], number[]] = [[], []];
  startTask(often, INTERVAL_MS, countTurn);
  await sleep(INTERVAL_MS / 3);
  startTask(seldom, 3 * INTERVAL_MS, countTurn);
  await until(() => seldom.length >= 3);
  expect(often).toEqual(expect.arrayContaining(seldom));
});

test('a task runs once in each interval, and no more once it is stopped', async () => {
  const times: number[] = [];
  const stop = startInterval(() => {
    if (times.push(performance.now()) === 10) stop();
  }, INTERVAL_MS);
  await until(() => times.length === 10);
  const [first = 0, last = 0] = [times[0], times.at(-1)];
  // Late calls are skipped, never made up for.
  expect(last - first).toBeGreaterThan(9 * INTERVAL_MS - INTERVAL_MS / 2);
  await sleep(3 * INTERVAL_MS);
  expect(times).toHaveLength(10);
});

test('a task that stops another one in the same turn prevents its call', async () => {
  const calls: string[] = [];
  let stopSecond: (() => void) | undefined;
  stops.push(
    startInterval(() => {
      calls.push('first');
      stopSecond?.();
    }, INTERVAL_MS),
  );
  stopSecond = startInterval(() => void calls.push('second'), INTERVAL_MS);
  await until(() => calls.length >= 2);
  expect(new Set(calls)).toEqual(new Set(['first']));
});
