import { expect, test } from '@jest/globals';
import { countDuplicates, countRepeats, listExcessiveDuplicates } from './duplicates.ts';
import { compareMemory, findRecoveries, summarizeRecoveries } from './figures.ts';
import type { AppliedFault, Arrival, SentPush, Try } from './history.ts';
import { buildPlan, objectOf } from './plan.ts';

/** A fault at a provider, and another one ten seconds later: their windows overlap from second 120 to second 125. */
const LONG = { fault: 'dropping web-push', atMs: 100_000, healedAtMs: 110_000 };
const KILL = { fault: 'kill delivery-worker', index: 0, atMs: 120_000, healedAtMs: 120_000 };
const BOTH = [LONG, KILL];
const ENDLESS = [{ fault: 'dropping web-push', atMs: 100_000 }];
const cutTo = (atMs: number) => [LONG, { ...KILL, atMs, healedAtMs: 113_000 }];
const [FIRST, SECOND] = ['from 100000 to 125000', 'from 120000 to 135000'];
const OUTSIDE = 'without a fault';

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

const at = (fault: string) => [{ ...LONG, fault }];
/** `again`: how many pushes came again, and when. */
test.each<[what: string, faults: AppliedFault[], again: string, found: string[]]>([
  ['16 in each window', BOTH, '16@100000', []],
  ['16 at its end', BOTH, '16@135000', []],
  ['16 outside', BOTH, '8@99999 8@135001', []],
  ['17 as a fault begins', BOTH, '17@100000', [FIRST]],
  ['17 so long after its end', BOTH, '17@125000', [FIRST, SECOND]],
  ['17 during and after it', BOTH, '9@101000 8@115000', [FIRST]],
  ['17 after a kill', BOTH, '17@134000', [SECOND]],
  ['17 before a fault', BOTH, '17@99999', [OUTSIDE]],
  ['17 before and after all faults', BOTH, '9@99999 8@135001', [OUTSIDE]],
  ['17 without faults', [], '17@500000', [OUTSIDE]],
  ['17 with a fault of another process', at('kill api'), '17@105000', [OUTSIDE]],
  ['17 with a fault of Redis', at('flush redis'), '17@105000', [OUTSIDE]],
  ['17 with a cut of devices', at('cut devices'), '17@105000', [OUTSIDE]],
  ['17 with another provider', at('silent fcm'), '17@105000', [OUTSIDE]],
  ['17 in a window of two', cutTo(110_000), '8@101000 9@128000', ['from 100000 to 128000']],
  ['17 in two windows', cutTo(110_001), '8@101000 9@128000', []],
  ['16 before and in an endless fault', ENDLESS, '16@99000 16@500000', []],
  ['17 in an endless fault', ENDLESS, '16@500000 1@600000', ['from 100000 to Infinity']],
])('duplicates at a provider: %s', (_what, faults, again, found) => {
  // Neither another device nor another channel counts.
  const others = [{ token: 'e' }, { channel: 'fcm' as const }];
  const arrivals = [
    ...again
      .split(' ')
      .flatMap((part) => repeated(...(part.split('@').map(Number) as [number, number]))),
    ...others.flatMap((fields) => repeated(16, 500, fields)),
  ];
  const expected = found.map((where) => `17 at d over web-push ${where}`);
  expect(listExcessiveDuplicates({ arrivals, faults })).toEqual(expected);
});

test.each([
  [16, 1, 0],
  [17, 1, 1],
  [32, 2, 0],
  [33, 2, 1],
])('%d duplicates over MQTT on %d connections: %d are too many', (count, connection, found) => {
  const arrivals = repeated(count, 101_000, { channel: 'mqtt', connection });
  expect(listExcessiveDuplicates({ arrivals, faults: BOTH })).toHaveLength(found);
});

test('a fallback is no duplicate, and a push that comes again on the next connection is no repeat', () => {
  const [first, second] = repeated(1, 101_000, { channel: 'mqtt', connection: 1 });
  if (first === undefined || second === undefined) throw new Error('a push came twice');
  const arrivals = [first, { ...second, connection: 2 }, { ...first, channel: 'fcm' as const }];
  expect([countDuplicates({ arrivals }), countRepeats({ arrivals })]).toEqual([1, 0]);
});

/** A fault from second 10 to second 15, and others. */
const STOP = { fault: 'stop mongodb', atMs: 10_000, healedAtMs: 15_000 };
const killAt = (atMs: number) => ({ fault: 'kill api', atMs, healedAtMs: atMs });

const tryUntil = (endedAtMs: number, end: Try['end']): Try => ({
  ...{ end, startedAtMs: endedAtMs - 5, endedAtMs },
});
const sent = (mark: string, ...tries: Try[]): SentPush => ({
  ...{ tenant: 'a', mark, audience: ['a', 'b'], ttlSeconds: 3_600, tries },
});
const okAt = (atMs: number) => tryUntil(atMs, 'ok');
/** Requests without a response that end at these times, and then one with a 200. */
const failedUntil = (...times: number[]) => [
  ...times.slice(0, -1).map((atMs) => tryUntil(atMs, 'unknown')),
  ...times.slice(-1).map(okAt),
];
const others = [killAt(30_000), { ...STOP, atMs: 50_000, healedAtMs: 55_000 }];

/** Expected are the times of faults alone, and behind an `o` of those that overlap; `-` is no recovery before the next fault. */
test.each<[what: string, faults: AppliedFault[], tries: Try[], expected: string]>([
  ['until the first 200', [STOP, killAt(30_000)], failedUntil(12_000, 16_000, 17_500), '2500 0'],
  ['not until the next fault', [STOP, killAt(30_000)], failedUntil(16_000, 29_000, 40_000), '- o0'],
  [
    'faults at once',
    [STOP, killAt(12_000), killAt(40_000)],
    failedUntil(14_000, 16_000),
    'o0 o4000 0',
  ],
  ['over a fault', [STOP, ...others], failedUntil(16_000, 31_000, 46_000), '- o16000 0'],
  ['of a late start', [killAt(80_000), killAt(80_500)], failedUntil(80_100, 82_000), 'o- o0'],
])('recovery of requests %s', (_what, faults, tries, expected) => {
  const history = { pushes: [sent('one', ...tries)], arrivals: [], settledAtMs: 120_000 };
  const found = findRecoveries(history, faults).map(
    ({ isOverlapping, sendsMs = '-' }) => `${isOverlapping ? 'o' : ''}${sendsMs}`,
  );
  expect(found.join(' ')).toBe(expected);
});

test('arrivals have recovered with the last first one at a provider of what was accepted meanwhile', () => {
  const pushes = [
    sent('before', okAt(8_000)),
    sent('during', okAt(12_000)),
    { ...sent('later', okAt(12_000)), dueAtMs: 20_000 },
    sent('shortly before the kill', okAt(29_500)),
  ];
  const arrival = (mark: string, token: string, atMs: number, connection = 0): Arrival => ({
    ...{ mark, token, atMs, connection, channel: connection === 0 ? 'apns' : 'mqtt' },
  });
  const arrivals = [
    ...[arrival('before', 'a', 19_000), arrival('later', 'a', 21_000)],
    ...[arrival('during', 'a', 16_000), arrival('during', 'b', 17_000)],
    ...[arrival('during', 'b', 26_000), arrival('during', 'c', 25_000, 3)],
    arrival('shortly before the kill', 'a', 29_900),
  ];
  const history = { pushes, arrivals, settledAtMs: 60_000 };
  expect(findRecoveries(history, [STOP, killAt(30_000)])).toMatchObject([
    { arrivalsMs: 2_000 },
    { arrivalsMs: 0 },
  ]);
});

test('recoveries are summarized by kind of fault', () => {
  const alone = { fault: 'kill api', isOverlapping: false };
  const summary = summarizeRecoveries([
    { ...alone, sendsMs: 900, arrivalsMs: 4_000 },
    { ...alone, sendsMs: 100 },
    alone,
    { ...alone, isOverlapping: true, sendsMs: 9_000 },
    { ...alone, fault: 'cut redis', sendsMs: 0 },
  ]);
  expect(summary).toEqual({
    'cut redis': { faults: 1, overlapping: 0, unrecovered: 0, sendsMs: { p50: 0, max: 0 } },
    'kill api': {
      ...{ faults: 4, overlapping: 1, unrecovered: 1 },
      ...{ sendsMs: { p50: 100, max: 900 }, arrivalsMs: { p50: 4_000, max: 4_000 } },
    },
  });
});

test('memory is compared by the medians of the largest process in an early and the last part', () => {
  const sizes = [1, 5, 5, 40, 8, 9, 9, 9, 9, 7];
  const samples = sizes.flatMap((size, index) =>
    // The other one is younger, and at times there is none.
    [size, ...(index % 3 === 0 ? [] : [1])].map((bytes) => ({
      ...{ service: 'api', atMs: index * 10, bytes },
    })),
  );
  expect(compareMemory(samples, 90)).toEqual([{ service: 'api', before: 8, after: 9 }]);
});

const DEVICES = { devices: { a: 100, b: 10 }, mqttOnly: { a: 60, b: 5 } };
const SETTINGS = { seed: 7, minutes: 2, pushesPerSecond: 5, topics: 2, ...DEVICES };

test('a seed decides the whole plan', () => {
  const plan = buildPlan(SETTINGS);
  expect(buildPlan(SETTINGS)).toEqual(plan);
  expect(buildPlan({ ...SETTINGS, seed: 8 })).not.toEqual(plan);
  // One every 20 s, and others of other objects that begin while these last.
  const first = plan.faults.filter(({ atMs }) => atMs % 20_000 === 10_000);
  expect(first.length).toBeGreaterThanOrEqual(6);
  expect(plan.pushes.length).toBeGreaterThan(400);
  expect(plan.pushes.filter(({ isInvalid }) => isInvalid).length).toBeGreaterThan(3);
});

test('some devices with a provider become gone, and nothing else of the plan depends on that', () => {
  const { gone: planned, ...plan } = buildPlan(SETTINGS);
  expect(planned.map(({ tenant }) => tenant).sort()).toEqual(['a', 'a', 'a', 'a', 'b']);
  for (const { atMs, tenant, device: index } of planned) {
    expect(index).toBeGreaterThanOrEqual(DEVICES.mqttOnly[tenant]);
    expect(index).toBeLessThan(DEVICES.devices[tenant]);
    expect(atMs).toBeGreaterThan(0);
    expect(atMs).toBeLessThan(120_000);
  }
  expect(buildPlan({ ...SETTINGS, mqttOnly: DEVICES.devices })).toEqual({ ...plan, gone: [] });
});

test('a second fault is of another object', () => {
  const { faults } = buildPlan({ ...SETTINGS, minutes: 60, pushesPerSecond: 1 });
  const byTick = Map.groupBy(faults, ({ atMs }) => Math.floor((atMs - 10_000) / 20_000));
  const pairs = [...byTick.values()].filter((group) => group.length > 1);
  expect(pairs.length).toBeGreaterThan(30);
  for (const pair of pairs) expect(new Set(pair.map(objectOf)).size).toBe(pair.length);
});
