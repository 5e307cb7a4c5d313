import { setTimeout as sleep } from 'node:timers/promises';
import { type ConnectedDevices, connectDevices } from '../support/connected-devices.ts';
import { pushIdOf, type Size, type StackFixture } from '../support/fixture.ts';
import { measureMedian, runAtRate } from '../support/load-patterns.ts';
import {
  measureAlternately,
  percentile,
  type Round,
  ratioRow,
  valueRow,
} from '../support/statistics.ts';
import { until } from '../support/until.ts';
import { median, type Row } from '../table.ts';
import { type OneDeviceFloor, startOneDeviceFloor } from './one-device-floor.ts';

const ROUNDS = 5;
const SINGLE_PUSHES: Record<Size, number> = { quick: 60, usual: 300, full: 1_000 };
const PUSHES_AT_REST: Record<Size, number> = { quick: 20, usual: 60, full: 200 };
/** Pause after a push, so that no other work runs during the next. */
const REST_MS = 60;
const RATE = 500;
const SECONDS: Record<Size, number> = { quick: 2, usual: 5, full: 20 };
const DEVICES = 200;
const SETTLED_PUSHES = 40;

/**
 * Measures a push to one connected device: from the POST until the device has written its PUBACK, and until the
 * stack has settled the delivery.
 */
export async function oneDevice(fixture: StackFixture, size: Size): Promise<Row[]> {
  const floor = await startOneDeviceFloor(fixture);
  const devices = await connectDevices(fixture, DEVICES);
  try {
    const singles = await measureAlternately(
      ROUNDS + 1,
      () => measureMedian(SINGLE_PUSHES[size], floor.deliver),
      () => measureMedian(SINGLE_PUSHES[size], () => untilArrived(fixture, devices, 0)),
    );
    const p50s = { unit: 'ms', ratio: 'ours/floor' } as const;
    return [
      ...(await measureAtRest(fixture, devices, floor, PUSHES_AT_REST[size])),
      ratioRow('one-device: p50 to the PUBACK, 1 in flight', singles.slice(1), p50s),
      await measureSettled(fixture, devices),
      ...(await benchAtRate(fixture, devices, SECONDS[size], singles)),
    ];
  } finally {
    devices.close();
    await floor.stop();
    await fixture.untilIdle();
  }
}

/** Measures one push at a time in the stack, against the steps of the floor. */
async function measureAtRest(
  fixture: StackFixture,
  devices: ConnectedDevices,
  floor: OneDeviceFloor,
  count: number,
): Promise<Row[]> {
  const accepted: Round[] = [];
  const arrived: Round[] = [];
  for (let n = 0; n <= ROUNDS; n += 1) {
    const theirs = await measureSteps(count, async () => {
      const firstAt = await floor.deliver();
      return { firstAt, lastAt: performance.now() };
    });
    const ours = await measureSteps(count, (push) => sendAndWait(fixture, devices, push));
    accepted.push({ floor: theirs.first, ours: ours.first });
    arrived.push({ floor: theirs.last, ours: ours.last });
  }
  const row = (what: string, rounds: readonly Round[]) =>
    ratioRow(`one-device: p50 of a lone push at rest ${what}`, rounds.slice(1), {
      unit: 'ms',
      ratio: 'ours/floor',
    });
  return [
    row('to the 200, against an insert', accepted),
    row('to the PUBACK, against all steps', arrived),
  ];
}

/** Measures the median milliseconds until both times of a task that runs repeatedly, with a pause in between. */
async function measureSteps(
  count: number,
  task: (n: number) => Promise<{ firstAt: number; lastAt: number }>,
): Promise<{ first: number; last: number }> {
  const first: number[] = [];
  const last: number[] = [];
  for (let n = 0; n < count; n += 1) {
    await sleep(REST_MS);
    const startedAt = performance.now();
    const { firstAt, lastAt } = await task(n);
    first.push(firstAt - startedAt);
    last.push(lastAt - startedAt);
  }
  return { first: percentile(first, 0.5), last: percentile(last, 0.5) };
}

let marks = 0;

/** Sends a push, and returns the times of its 200 and of its PUBACK. */
async function sendAndWait(
  fixture: StackFixture,
  devices: ConnectedDevices,
  n: number,
): Promise<{ firstAt: number; lastAt: number }> {
  marks += 1;
  const mark = String(marks);
  const arrived = devices.waitForArrival(mark);
  await sendPush(fixture, devices, n, mark);
  const firstAt = performance.now();
  return { firstAt, lastAt: await arrived };
}

async function benchAtRate(
  fixture: StackFixture,
  devices: ConnectedDevices,
  seconds: number,
  singles: readonly Round[],
): Promise<Row[]> {
  const p50s: number[] = [];
  const p99s: number[] = [];
  for (let n = 0; n <= ROUNDS; n += 1) {
    const times = await measureLatencies(fixture, devices, RATE, RATE * seconds);
    p50s.push(percentile(times, 0.5));
    p99s.push(percentile(times, 0.99));
  }
  const [p50, p99] = [p50s.slice(1), p99s.slice(1)];
  const floor = median(singles.map((round) => round.floor));
  const against = p50.map((ours) => ({ floor, ours }));
  return [
    ratioRow(`one-device: p50 at ${RATE}/s`, against, { unit: 'ms', ratio: 'ours/floor' }),
    valueRow(`one-device: p99 at ${RATE}/s`, p99, {
      unit: 'ms',
      floors: p99.map(() => floor),
    }),
  ];
}

/** Measures from the POST to the settled push. The polling uses some of the machine. */
async function measureSettled(fixture: StackFixture, devices: ConnectedDevices): Promise<Row> {
  const pushes = fixture.mongo.collection<{ _id: string }>('pushes');
  const isFinished = (_id: string) => async () =>
    (await pushes.findOne({ _id, state: 'finished' }, { projection: { _id: 1 } })) !== null;
  const times: number[] = [];
  for (let n = 0; n < SETTLED_PUSHES; n += 1) {
    const startedAt = performance.now();
    const id = pushIdOf(await sendPush(fixture, devices, n, `settled-${n}`));
    await until('a settled push', isFinished(id), { everyMs: 1 });
    times.push(performance.now() - startedAt);
  }
  return { what: 'one-device: p50 to the settled push', value: percentile(times, 0.5), unit: 'ms' };
}

/**
 * Sends pushes at a steady rate.
 *
 * @returns milliseconds from the due time of each push to its PUBACK
 */
export async function measureLatencies(
  fixture: StackFixture,
  devices: ConnectedDevices,
  perSecond: number,
  count: number,
  isEnough?: () => boolean,
): Promise<number[]> {
  const times: number[] = [];
  const sendAndMeasure = async (n: number, dueAt: number) => {
    times.push((await untilArrived(fixture, devices, n)) - dueAt);
  };
  await runAtRate(perSecond, count, sendAndMeasure, isEnough);
  return times;
}

/**
 * Sends a push and waits for its PUBACK.
 *
 * @returns the time (`performance.now()`) at which the device had written its PUBACK
 */
export async function untilArrived(
  fixture: StackFixture,
  devices: ConnectedDevices,
  n: number,
): Promise<number> {
  return (await sendAndWait(fixture, devices, n)).lastAt;
}

function sendPush(
  { request, call }: StackFixture,
  { tokens }: ConnectedDevices,
  n: number,
  mark: string,
) {
  const to = tokens[n % tokens.length];
  return call(request('POST', '/push', JSON.stringify({ to, data: { mark } })));
}
