import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { findRegressions, keepResults } from '../../bench/kept-results.ts';
import { valueRow } from '../../bench/support/statistics.ts';
import type { Row } from '../../bench/table.ts';
import { createTemporaryFolder } from '../support/temporary-folder.ts';

const row = (what: string, value: number, more: Partial<Row> = {}): Row => ({
  what,
  value,
  unit: '×',
  spread: { min: value - 0.1, max: value + 0.1 },
  ...more,
});
const lowerIsWorse = { goal: { atLeast: 1 } };
const milliseconds = { unit: 'ms' };

function keep(...rows: Row[]): string {
  const file = join(createTemporaryFolder(), 'kept.json');
  keepResults(rows, file);
  return file;
}

test('if it is worse by more than the spread of the kept rounds', () => {
  const file = keep(row('cost', 2), row('rate', 2, lowerIsWorse));
  const within = [row('cost', 2.19), row('rate', 1.81, lowerIsWorse)];
  expect(findRegressions(within, file)).toEqual([]);
  expect(findRegressions([row('cost', 2.3), row('rate', 2.3, lowerIsWorse)], file)).toEqual([
    'cost: 2.3, kept 2 ± 0.2',
  ]);
  expect(findRegressions([row('cost', 1), row('rate', 1.7, lowerIsWorse)], file)).toEqual([
    'rate: 1.7, kept 2 ± 0.2',
  ]);
});

test('milliseconds, and rows that were not kept, are not compared', () => {
  const file = keep(row('latency', 2, milliseconds), row('cost', 2));
  expect(findRegressions([row('latency', 9, milliseconds), row('new', 9)], file)).toEqual([]);
});

test('milliseconds are compared by their ratio to the floor, if there is one', () => {
  const cpu = (value: number, floor: number) => {
    const floors = [floor, floor, floor];
    return valueRow('cpu', [value - 0.1, value, value + 0.1], { unit: 'ms', floors });
  };
  const file = keep(cpu(4, 1));
  // A machine of half the speed.
  expect(findRegressions([cpu(8, 2)], file)).toEqual([]);
  expect(findRegressions([cpu(4, 0.9)], file)).toEqual(['cpu: 4.444, kept 4 ± 0.2']);
});

test.each(['% of a core', 'MB', 'commands'])('a higher value in %s is worse', (unit) => {
  const file = keep(row('idle', 2, { unit }));
  expect(findRegressions([row('idle', 2.1, { unit }), row('idle', 2.3, { unit })], file)).toEqual([
    'idle: 2.3, kept 2 ± 0.2',
  ]);
});

test('the rows of another part stay kept', () => {
  const file = keep(row('cost', 2));
  keepResults([row('other', 3)], file);
  expect(findRegressions([row('cost', 9), row('other', 9)], file)).toHaveLength(2);
});

test('without kept results there is nothing to compare with', () => {
  const file = join(createTemporaryFolder(), 'kept.json');
  expect(() => findRegressions([row('cost', 2)], file)).toThrow('--keep');
});
