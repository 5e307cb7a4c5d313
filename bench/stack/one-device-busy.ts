import { connectDevices } from '../support/connected-devices.ts';
import type { Size, StackFixture } from '../support/fixture.ts';
import { untilDeleted, untilSettled } from '../support/progress.ts';
import { percentile, type Round, ratioRow } from '../support/statistics.ts';
import type { Row } from '../table.ts';
import { measureLatencies } from './one-device.ts';

const ROUNDS = 5;
const DEVICES = 100;
const RATE = 100;
const IDLE_PUSHES = 300;
const SUBSCRIBERS: Record<Size, number> = { quick: 20_000, usual: 100_000, full: 100_000 };

/** Measures pushes to single devices during a fan-out to many offline devices. */
export async function oneDeviceBusy(fixture: StackFixture, size: Size): Promise<Row[]> {
  const { audience, mongo } = fixture;
  const subscribers = SUBSCRIBERS[size];
  const topic = await audience.subscribe('crowd', await audience.register(subscribers));
  const devices = await connectDevices(fixture, DEVICES);
  const p50s: Round[] = [];
  const p99s: Round[] = [];
  try {
    await measureLatencies(fixture, devices, RATE, IDLE_PUSHES);
    for (let n = 0; n < ROUNDS; n += 1) {
      const quiet = await measureLatencies(fixture, devices, RATE, IDLE_PUSHES);
      const push = await fixture.push(topic);
      let isOver = false;
      const over = untilSettled(mongo, push, 50).then(() => {
        isOver = true;
      });
      const most = Number.MAX_SAFE_INTEGER;
      const busy = await measureLatencies(fixture, devices, RATE, most, () => isOver);
      await over;
      p50s.push({ floor: percentile(quiet, 0.5), ours: percentile(busy, 0.5) });
      p99s.push({ floor: percentile(quiet, 0.99), ours: percentile(busy, 0.99) });
      await fixture.call(fixture.request('DELETE', `/pushes/${push}`));
      await untilDeleted(mongo, push);
    }
  } finally {
    devices.close();
  }
  const beside = `beside a fan-out to ${subscribers.toLocaleString('en')}, against quiet`;
  const unit = { unit: 'ms', ratio: 'ours/floor' } as const;
  return [
    ratioRow(`one-device-busy: p50 ${beside}`, p50s, unit),
    ratioRow(`one-device-busy: p99 ${beside}`, p99s, unit),
  ];
}
