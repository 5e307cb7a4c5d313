import { expect, test } from '@jest/globals';
import { countDuplicates, countRepeats, listExcessiveDuplicates } from './duplicates.ts';
import type { AppliedFault, Arrival } from './history.ts';

/** A fault at a provider, and another one ten seconds later. */
const LONG = { fault: 'dropping web-push', atMs: 100_000, healedAtMs: 110_000 };
const LATER = { fault: 'kill delivery-worker', index: 0, atMs: 120_000, healedAtMs: 120_000 };

/** Pushes that a device got, and each of them again at this time. */
function repeated(count: number, atMs: number, fields: Partial<Arrival> = {}): Arrival[] {
  return Array.from({ length: count }, (_, n) => `${atMs}-${n}`).flatMap((mark) =>
    [0, atMs].map(
      (time): Arrival => ({
        ...{ token: 'd', mark, atMs: time, channel: 'web-push', connection: 0 },
        ...fields,
      }),
    ),
  );
}

const find = (arrivals: Arrival[], faults: AppliedFault[] = [LONG, LATER]) =>
  listExcessiveDuplicates({ arrivals, faults });

test('a device of a provider may get 16 pushes again in the window of each fault, and 16 outside of them', () => {
  // The windows overlap from second 120 to second 125.
  const arrivals = [
    ...[...repeated(16, 100_000), ...repeated(16, 135_000)],
    ...[...repeated(8, 99_999), ...repeated(8, 135_001)],
    ...repeated(16, 110_000, { token: 'e' }),
    ...repeated(16, 110_000, { channel: 'fcm' }),
  ];
  expect(find(arrivals)).toEqual([]);
});

test.each([
  { where: 'as a fault begins', atMs: [100_000], window: 'from 100000 to 125000' },
  { where: 'so long after its end', atMs: [125_000], window: 'from 100000 to 125000' },
  { where: 'during and after it', atMs: [101_000, 115_000], window: 'from 100000 to 125000' },
  { where: 'after a kill', atMs: [134_000], window: 'from 120000 to 135000' },
  { where: 'before a fault', atMs: [99_999], window: 'without a fault' },
  { where: 'before and after all faults', atMs: [99_999, 135_001], window: 'without a fault' },
])('17 $where are too many', ({ atMs, window }) => {
  const [first = 0, second = first] = atMs;
  const arrivals = [...repeated(9, first), ...repeated(8, second)].map((arrival, n) => ({
    ...arrival,
    mark: `${Math.floor(n / 2)}`,
  }));
  expect(find(arrivals)).toContain(`17 at d over web-push ${window}`);
});

test('a fault of another process or provider is no break', () => {
  for (const fault of ['kill api', 'flush redis', 'cut devices', 'silent fcm'])
    expect(find(repeated(17, 105_000), [{ ...LONG, fault }])).toEqual([
      '17 at d over web-push without a fault',
    ]);
});

test('faults that overlap share a window', () => {
  const faults = [LONG, { ...LATER, atMs: 110_000, healedAtMs: 113_000 }];
  const arrivals = [...repeated(8, 101_000), ...repeated(9, 128_000)];
  expect(find(arrivals, faults)).toEqual(['17 at d over web-push from 100000 to 128000']);
  expect(find(arrivals, [LONG, { ...LATER, atMs: 110_001, healedAtMs: 113_000 }])).toEqual([]);
});

test('without faults 17 are too many, and a fault that was not undone lasts on', () => {
  expect(find(repeated(17, 500_000), [])).toEqual(['17 at d over web-push without a fault']);
  const { healedAtMs: _, ...endless } = LONG;
  const arrivals = [...repeated(16, 99_000), ...repeated(16, 500_000)];
  expect(find(arrivals, [endless])).toEqual([]);
  expect(find([...arrivals, ...repeated(1, 600_000)], [endless])).toHaveLength(1);
});

test('over MQTT the bound is for each connection, whatever fails meanwhile', () => {
  const overMqtt = (count: number, connection: number) =>
    repeated(count, 101_000, { channel: 'mqtt', connection });
  expect(find(overMqtt(17, 1))).toEqual(['17 at d over mqtt on 1 connections']);
  expect(find(overMqtt(32, 2))).toEqual([]);
  expect(find(overMqtt(33, 2))).toHaveLength(1);
});

test('a fallback is no duplicate, and a push that comes again on the next connection is no repeat', () => {
  const [first, second] = repeated(1, 101_000, { channel: 'mqtt', connection: 1 });
  if (first === undefined || second === undefined) throw new Error('a push came twice');
  const arrivals = [first, { ...second, connection: 2 }, { ...first, channel: 'fcm' as const }];
  expect([countDuplicates({ arrivals }), countRepeats({ arrivals })]).toEqual([1, 0]);
});
