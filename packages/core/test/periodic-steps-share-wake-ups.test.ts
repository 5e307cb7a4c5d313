import { expect, test } from '@jest/globals';
import { until } from '../../../test/support/until.ts';
import { startAlignedInterval } from '../src/aligned-interval.ts';

const INTERVAL_MS = 40;

test('steps of the same interval that were started apart run in the same turn, until they end', async () => {
  let turn: string[] | undefined;
  const turns: string[][] = [];
  const noteTurn = (name: string) => () => {
    if (turn === undefined) {
      turn = [];
      turns.push(turn);
      setImmediate(() => {
        turn = undefined;
      });
    }
    turn.push(name);
  };
  const endFirst = startAlignedInterval(noteTurn('first'), INTERVAL_MS);
  await until(() => turns.length > 0);
  const endSecond = startAlignedInterval(noteTurn('second'), INTERVAL_MS);
  await until(() => turns.some((names) => names.length === 2));

  endFirst();
  turns.length = 0;
  await until(() => turns.length > 1);
  endSecond();
  expect(turns.flat()).not.toContain('first');
});
