import { expect, test } from '@jest/globals';
import type { Arrival, History, SentPush, Try } from './history.ts';
import { compareMemory } from './memory.ts';
import { findRecoveries, summarizeRecoveries, summarizeSchedule } from './recovery.ts';

/** A fault from second 10 to second 15, and the next one at second 30. */
const FAULTS = [
  { fault: 'stop mongodb', atMs: 10_000, healedAtMs: 15_000 },
  { fault: 'kill api', atMs: 30_000, healedAtMs: 30_000 },
];

const tryUntil = (endedAtMs: number, end: Try['end']): Try => ({
  ...{ end, startedAtMs: endedAtMs - 5, endedAtMs },
});

const sent = (mark: string, ...tries: Try[]): SentPush => ({
  ...{ tenant: 'a', mark, audience: ['a', 'b'], ttlSeconds: 3_600, tries },
});

const arrival = (mark: string, token: string, atMs: number, connection = 0): Arrival => ({
  ...{ mark, token, atMs, connection, channel: connection === 0 ? 'apns' : 'mqtt' },
});

function recover(pushes: SentPush[], arrivals: Arrival[]) {
  const history: Pick<History, 'pushes' | 'arrivals' | 'settledAtMs'> = {
    ...{ pushes, arrivals, settledAtMs: 60_000 },
  };
  return findRecoveries(history, FAULTS);
}

test('sends have recovered at the first 200 after the last failure', () => {
  const push = sent('one', tryUntil(12_000, 'unknown'), tryUntil(16_000, 'unknown'));
  const next = sent('two', tryUntil(15_500, 'ok'));
  push.tries.push(tryUntil(17_500, 'ok'));
  expect(recover([push, next], [])).toMatchObject([
    { fault: 'stop mongodb', sendsMs: 2_500 },
    { fault: 'kill api', sendsMs: 0 },
  ]);
});

test('sends that fail until the next fault have not recovered', () => {
  const failed = sent('one', tryUntil(16_000, 'unknown'), tryUntil(29_000, 'unknown'));
  failed.tries.push(tryUntil(40_000, 'ok'));
  const [first, second] = recover([failed], []);
  expect(first).not.toHaveProperty('sendsMs');
  expect(second).toMatchObject({ sendsMs: 0 });
});

test('arrivals have recovered with the last first one at a provider of what was accepted meanwhile', () => {
  const scheduled = { ...sent('later', tryUntil(12_000, 'ok')), dueAtMs: 20_000 };
  const pushes = [
    sent('before', tryUntil(8_000, 'ok')),
    sent('during', tryUntil(12_000, 'ok')),
    scheduled,
    sent('shortly before the kill', tryUntil(29_500, 'ok')),
  ];
  const arrivals = [
    ...[arrival('before', 'a', 19_000), arrival('later', 'a', 21_000)],
    ...[arrival('during', 'a', 16_000), arrival('during', 'b', 17_000)],
    ...[arrival('during', 'b', 26_000), arrival('during', 'c', 25_000, 3)],
    arrival('shortly before the kill', 'a', 29_900),
  ];
  expect(recover(pushes, arrivals)).toMatchObject([{ arrivalsMs: 2_000 }, { arrivalsMs: 0 }]);
});

test('faults that last at the same time are marked, and the next one ends the time to recover', () => {
  const faults = [
    { fault: 'stop mongodb', atMs: 10_000, healedAtMs: 15_000 },
    { fault: 'kill api', index: 1, atMs: 12_000, healedAtMs: 12_000 },
    { fault: 'cut redis', atMs: 40_000, healedAtMs: 41_000 },
  ];
  const push = sent('one', tryUntil(14_000, 'unknown'), tryUntil(16_000, 'ok'));
  const history = { pushes: [push], arrivals: [], settledAtMs: 60_000 };
  expect(findRecoveries(history, faults)).toMatchObject([
    { fault: 'stop mongodb', isOverlapping: true },
    { fault: 'kill api', isOverlapping: true },
    { fault: 'cut redis', isOverlapping: false },
  ]);
});

test('a fault that begins before the requests have recovered from another one is not measured alone', () => {
  const faults = [
    // Requests fail after the next fault as well, which has nothing to do with them, and not after the third.
    { fault: 'slow mongodb', atMs: 10_000, healedAtMs: 15_000 },
    { fault: 'kill device-gateway', index: 0, atMs: 30_000, healedAtMs: 30_000 },
    { fault: 'stop api', index: 0, atMs: 50_000, healedAtMs: 55_000 },
    // A process that was killed starts again after the next fault has begun.
    { fault: 'kill mongodb', index: 0, atMs: 80_000, healedAtMs: 80_000 },
    { fault: 'kill scheduler', index: 0, atMs: 80_500, healedAtMs: 80_500 },
  ];
  const push = sent(
    'one',
    ...[16_000, 29_000, 31_000, 45_000].map((atMs) => tryUntil(atMs, 'unknown')),
    ...[tryUntil(46_000, 'ok'), tryUntil(80_100, 'unknown'), tryUntil(82_000, 'ok')],
  );
  const history = { pushes: [push], arrivals: [], settledAtMs: 120_000 };
  const recoveries = findRecoveries(history, faults);
  expect(recoveries).toMatchObject([
    { fault: 'slow mongodb', isOverlapping: false },
    { fault: 'kill device-gateway', isOverlapping: true, sendsMs: 16_000 },
    { fault: 'stop api', isOverlapping: false, sendsMs: 0 },
    { fault: 'kill mongodb', isOverlapping: true },
    { fault: 'kill scheduler', isOverlapping: true },
  ]);
  expect(summarizeRecoveries(recoveries)).toMatchObject({
    'slow mongodb': { unrecovered: 1 },
    'kill mongodb': { unrecovered: 0 },
  });
});

test('recoveries are summarized by kind of fault', () => {
  const none = { failed: 0, answeredMs: [] };
  const alone = { isOverlapping: false };
  const recoveries = [
    {
      ...{ fault: 'kill api', atMs: 1, ...alone, sendsMs: 900, arrivalsMs: 4_000 },
      during: { failed: 2, answeredMs: [5, 9] },
    },
    { fault: 'kill api', atMs: 2, ...alone, sendsMs: 100, during: { failed: 0, answeredMs: [7] } },
    { fault: 'kill api', atMs: 3, ...alone, during: none },
    { fault: 'kill api', atMs: 4, isOverlapping: true, sendsMs: 9_000, during: none },
    { fault: 'cut redis', atMs: 4, ...alone, sendsMs: 0, during: none },
  ];
  expect(summarizeRecoveries(recoveries)).toEqual({
    'cut redis': {
      ...{ faults: 1, overlapping: 0, unrecovered: 0, sendsMs: { p50: 0, max: 0 } },
      during: { requests: 0, failed: 0 },
    },
    'kill api': {
      ...{ faults: 4, overlapping: 1, unrecovered: 1 },
      during: { requests: 5, failed: 2, p50Ms: 7, p99Ms: 9 },
      sendsMs: { p50: 100, max: 900 },
      arrivalsMs: { p50: 4_000, max: 4_000 },
    },
  });
});

test('requests of a fault are those that began during it', () => {
  const push = sent('one', tryUntil(9_999, 'ok'), tryUntil(10_100, 'unknown'));
  const next = sent('two', tryUntil(14_000, 'ok'), tryUntil(15_900, 'ok'));
  const [first] = recover([push, next], []);
  expect(first?.during).toEqual({ failed: 1, answeredMs: [5] });
});

test('scheduled pushes are late by the time from when they are due, apart from faults', () => {
  const scheduled = (mark: string, dueAtMs: number): SentPush => ({
    ...sent(mark, tryUntil(1_000, 'ok')),
    dueAtMs,
  });
  const pushes = [
    ...[scheduled('one', 5_000), scheduled('two', 22_000), scheduled('offline', 4_000)],
    ...[scheduled('during', 12_000), scheduled('after', 17_000), scheduled('before', 28_500)],
  ];
  const arrivals = [
    ...[arrival('one', 'a', 5_100), arrival('two', 'a', 22_700), arrival('during', 'a', 19_000)],
    ...[arrival('after', 'a', 19_000), arrival('before', 'a', 29_500)],
  ];
  expect(summarizeSchedule({ pushes, arrivals }, FAULTS)).toEqual({
    ...{ pushes: 2, firstMs: 100, p50Ms: 100, p99Ms: 700 },
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
