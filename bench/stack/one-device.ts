import { type Connected, connectDevices } from '../support/connected.ts';
import { inTurns, percentile, type Round, ratioRow, spread } from '../support/figures.ts';
import { middle, steadily } from '../support/pace.ts';
import { pushIdOf, type Scene, type Size } from '../support/scene.ts';
import { until } from '../support/until.ts';
import { median, type Row } from '../table.ts';
import { startOneDeviceFloor } from './one-device-floor.ts';

const ROUNDS = 5;
const LONE: Record<Size, number> = { quick: 60, usual: 300, full: 1_000 };
const RATE = 500;
const SECONDS: Record<Size, number> = { quick: 2, usual: 5, full: 20 };
const DEVICES = 200;
const SETTLED = 40;

/**
 * A push to one connected device: from the POST to the moment at which the device has written its PUBACK, and to
 * the moment at which the stack has settled it.
 */
export async function oneDevice(scene: Scene, size: Size): Promise<Row[]> {
  const floor = await startOneDeviceFloor(scene);
  const devices = await connectDevices(scene, DEVICES);
  try {
    const lone = await inTurns(
      ROUNDS + 1,
      () => middle(LONE[size], floor.deliver),
      () => middle(LONE[size], () => untilArrived(scene, devices, 0)),
    );
    const p50s = { unit: 'ms', goal: { atMost: 2 }, ratio: 'ours/floor' } as const;
    return [
      ratioRow('one-device: p50 to the PUBACK, 1 in flight', lone.slice(1), p50s),
      await settledRow(scene, devices),
      ...(await atRate(scene, devices, SECONDS[size], lone)),
    ];
  } finally {
    devices.close();
    await floor.stop();
    await scene.untilIdle();
  }
}

async function atRate(
  scene: Scene,
  devices: Connected,
  seconds: number,
  lone: readonly Round[],
): Promise<Row[]> {
  const p50s: number[] = [];
  const p99s: number[] = [];
  for (let n = 0; n <= ROUNDS; n += 1) {
    const times = await latencies(scene, devices, RATE, RATE * seconds);
    p50s.push(percentile(times, 0.5));
    p99s.push(percentile(times, 0.99));
  }
  const [p50, p99] = [p50s.slice(1), p99s.slice(1)];
  const floor = median(lone.map((round) => round.floor));
  const against = p50.map((ours) => ({ floor, ours }));
  return [
    ratioRow(`one-device: p50 at ${RATE}/s`, against, { unit: 'ms', ratio: 'ours/floor' }),
    {
      what: `one-device: p99 at ${RATE}/s`,
      value: median(p99),
      unit: 'ms',
      ours: spread(p99, 'ms'),
      goal: { atMost: 20 },
    },
  ];
}

/** From the POST to the settled push; asking for it all the time takes its part of the machine. */
async function settledRow(scene: Scene, devices: Connected): Promise<Row> {
  const pushes = scene.mongo.collection<{ _id: string }>('pushes');
  const isFinished = (_id: string) => async () =>
    (await pushes.findOne({ _id, state: 'finished' }, { projection: { _id: 1 } })) !== null;
  const times: number[] = [];
  for (let n = 0; n < SETTLED; n += 1) {
    const startedAt = performance.now();
    const id = pushIdOf(await post(scene, devices, n, `settled-${n}`));
    await until('a settled push', isFinished(id), { everyMs: 1 });
    times.push(performance.now() - startedAt);
  }
  return { what: 'one-device: p50 to the settled push', value: percentile(times, 0.5), unit: 'ms' };
}

/**
 * Sends pushes at a steady rate.
 *
 * @returns milliseconds from when each was due to its PUBACK
 */
export async function latencies(
  scene: Scene,
  devices: Connected,
  perSecond: number,
  count: number,
  isEnough?: () => boolean,
): Promise<number[]> {
  const times: number[] = [];
  const each = async (n: number, dueAt: number) => {
    times.push((await untilArrived(scene, devices, n)) - dueAt);
  };
  await steadily(perSecond, count, each, isEnough);
  return times;
}

let marks = 0;

async function untilArrived(scene: Scene, devices: Connected, n: number): Promise<number> {
  marks += 1;
  const mark = String(marks);
  const arrived = devices.arrival(mark);
  await post(scene, devices, n, mark);
  return arrived;
}

function post({ request, call }: Scene, { tokens }: Connected, n: number, mark: string) {
  const to = tokens[n % tokens.length];
  return call(request('POST', '/push', JSON.stringify({ to, data: { mark } })));
}
