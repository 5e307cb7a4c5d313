import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { countArrivals } from '../support/faults/expect-complete.ts';
import { createFakeClock, type FakeClock } from '../support/faults/fake-clock.ts';
import { sendPush } from '../support/faults/pushes.ts';
import { openServiceSet, type ServiceSet } from '../support/faults/service-set.ts';
import { newMqttDevice } from '../support/mqtt-device.ts';
import { SERVICES } from '../support/operators/service-process.ts';
import { until } from '../support/until.ts';

/** Five minutes fast, then slow, then right; so the clock is set back, by ten minutes, and put forward. */
const SERVICE_OFFSETS = [300, -300, 0];
/** MongoDB's clock decides, so that a push may be early by as much as it is fast. */
const MONGODB_OFFSETS = [1, -1, 0];
const DUE_AFTER_SECONDS = 2;
/** Shorter than the clock is fast. */
const TTL_SECONDS = 120;
const ARRIVES = { timeoutMs: 30_000, what: 'the push' };
const LIMIT_MS = 180_000;

let clock: FakeClock;
let set: ServiceSet | undefined;
beforeEach(async () => {
  clock = await createFakeClock();
});
afterEach(async () => {
  await set?.stop();
  await clock?.remove();
});

/** A device that is connected gets a push, and one that is due soon not before; one that is offline gets it later. */
async function expectDeliveries(set: ServiceSet, maxEarlyMs: number): Promise<void> {
  const [online, offline] = [await newMqttDevice(set.dev), await newMqttDevice(set.dev)];
  await online.connect();
  const fields = { time_to_live: TTL_SECONDS };
  const dueAt = Math.ceil(Date.now() / 1_000) + DUE_AFTER_SECONDS;
  const scheduled = await sendPush(set, online.token, { ...fields, schedule: dueAt });
  const now = await sendPush(set, online.token, fields);
  const kept = await sendPush(set, offline.token, fields);
  await until(() => countArrivals(online, now) > 0, ARRIVES);
  const isKept = async () =>
    (await set.store.deliveryStatus.statusOfPush(kept.id))?.outcomes.inbox === 1;
  await until(isKept, ARRIVES);
  await offline.connect();
  await until(() => countArrivals(offline, kept) > 0, ARRIVES);
  await until(() => countArrivals(online, scheduled) > 0, ARRIVES);
  const arrival = online.arrivals.find(({ payload }) => payload === scheduled.payload);
  const arrivedAt = Date.now() - performance.now() + (arrival?.receivedAtMs ?? 0);
  expect(arrivedAt).toBeGreaterThanOrEqual(dueAt * 1_000 - maxEarlyMs);
  const arrived = [countArrivals(online, now), countArrivals(offline, kept)];
  expect([...arrived, countArrivals(online, scheduled)]).toEqual([1, 1, 1]);
  await Promise.all([online.disconnect(), offline.disconnect()]);
}

async function expectAllReady({ services }: ServiceSet): Promise<void> {
  for (const service of services) {
    expect(service.isRunning()).toBe(true);
    // A busy machine may be late with a response.
    expect(await until(() => service.probe('/readyz'))).toEqual({ status: 200, faults: [] });
  }
}

/** Sets the clock, waits until its processes have followed, and expects that pushes come and all processes are ready. */
async function expectWellAt(
  opened: ServiceSet,
  seconds: number,
  readTimeMs: () => Promise<number>,
  { precision, maxEarlyMs }: { precision: number; maxEarlyMs: number },
): Promise<void> {
  await clock.setOffset(seconds);
  const isOff = async () =>
    Math.abs(((await readTimeMs()) - Date.now()) / 1_000 - seconds) < precision;
  await until(isOff, { timeoutMs: 30_000, everyMs: 20, what: `a clock off by ${seconds} s` });
  await expectDeliveries(opened, maxEarlyMs);
  await expectAllReady(opened);
}

test.each(SERVICES)(
  '%s: five minutes fast, then slow, then right',
  async (name) => {
    const opened = await openServiceSet((one) => (one === name ? clock.env : {}));
    set = opened;
    // The wall clock of the process is in its responses.
    const readTimeMs = async () => {
      const { headers } = await fetch(`${opened.find(name).ops}/livez`);
      return Date.parse(headers.get('date') ?? '');
    };
    for (const seconds of SERVICE_OFFSETS)
      await expectWellAt(opened, seconds, readTimeMs, { precision: 5, maxEarlyMs: 0 });
  },
  LIMIT_MS,
);

test(
  'MongoDB: a second fast, then slow, then right',
  async () => {
    const opened = await openServiceSet(() => ({}), clock.env);
    set = opened;
    const readTimeMs = async () =>
      Number((await opened.mongo.db.admin().command({ hello: 1 })).localTime);
    const maxEarlyMs = Math.max(...MONGODB_OFFSETS) * 1_000;
    for (const seconds of MONGODB_OFFSETS)
      await expectWellAt(opened, seconds, readTimeMs, { precision: 0.4, maxEarlyMs });
  },
  LIMIT_MS,
);
