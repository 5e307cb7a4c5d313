import { connectDevices } from '../support/connected.ts';
import { percentile, type Round, ratioRow } from '../support/figures.ts';
import { untilGone, untilWorked } from '../support/progress.ts';
import type { Scene, Size } from '../support/scene.ts';
import type { Row } from '../table.ts';
import { latencies } from './one-device.ts';

const ROUNDS = 3;
const DEVICES = 100;
const RATE = 100;
const QUIET_PUSHES = 300;
const SUBSCRIBERS: Record<Size, number> = { quick: 20_000, usual: 100_000, full: 100_000 };

/** Pushes to one device each, while a push to very many that are offline is being worked. */
export async function oneDeviceBusy(scene: Scene, size: Size): Promise<Row[]> {
  const { audience, mongo } = scene;
  const subscribers = SUBSCRIBERS[size];
  const topic = await audience.subscribe('crowd', await audience.register(subscribers));
  const devices = await connectDevices(scene, DEVICES);
  const p50s: Round[] = [];
  const p99s: Round[] = [];
  try {
    await latencies(scene, devices, RATE, QUIET_PUSHES);
    for (let n = 0; n < ROUNDS; n += 1) {
      const quiet = await latencies(scene, devices, RATE, QUIET_PUSHES);
      const push = await scene.push(topic);
      let isOver = false;
      const over = untilWorked(mongo, push, 50).then(() => {
        isOver = true;
      });
      const most = Number.MAX_SAFE_INTEGER;
      const busy = await latencies(scene, devices, RATE, most, () => isOver);
      await over;
      p50s.push({ floor: percentile(quiet, 0.5), ours: percentile(busy, 0.5) });
      p99s.push({ floor: percentile(quiet, 0.99), ours: percentile(busy, 0.99) });
      await scene.call(scene.request('DELETE', `/pushes/${push}`));
      await untilGone(mongo, push);
    }
  } finally {
    devices.close();
  }
  const beside = `beside a fan-out to ${subscribers.toLocaleString('en')}, against quiet`;
  const unit = { unit: 'ms', ratio: 'ours/floor' } as const;
  return [
    ratioRow(`one-device-busy: p50 ${beside}`, p50s, unit),
    ratioRow(`one-device-busy: p99 ${beside}`, p99s, { ...unit, goal: { atMost: 5 } }),
  ];
}
