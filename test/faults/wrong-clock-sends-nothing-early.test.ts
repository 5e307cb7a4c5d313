import { afterEach, expect, test } from '@jest/globals';
import { MongoClient } from 'mongodb';
import { countArrivals } from '../support/faults/expect-complete.ts';
import { createFakeClock, type FakeClock } from '../support/faults/fake-clock.ts';
import { sendPush } from '../support/faults/pushes.ts';
import { type ServiceSet, startServiceSet } from '../support/faults/service-set.ts';
import { newMqttDevice } from '../support/mqtt-device.ts';
import { type DataServers, startDataServers } from '../support/operators/data-servers.ts';
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

let releases: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const release of releases.toReversed()) await release();
  releases = [];
});

function keep<T>(resource: T, release: () => Promise<void>): T {
  releases.push(release);
  return resource;
}

async function openClock(): Promise<FakeClock> {
  const clock = await createFakeClock();
  return keep(clock, clock.remove);
}

async function openServers(mongodbVariables?: Record<string, string>): Promise<DataServers> {
  const servers = await startDataServers(mongodbVariables);
  return keep(servers, servers.stop);
}

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

/** Waits until a process's wall clock, as its responses have it, is so many seconds from this one's. */
async function untilOffset(ops: string, seconds: number): Promise<void> {
  const isOff = async () => {
    const { headers } = await fetch(`${ops}/livez`);
    const offset = (Date.parse(headers.get('date') ?? '') - Date.now()) / 1_000;
    return Math.abs(offset - seconds) < 5;
  };
  await until(isOff, { everyMs: 200, what: `a clock off by ${seconds} s` });
}

/** Waits until MongoDB's clock is so many seconds from this one's. */
async function untilMongodbOffset(client: MongoClient, seconds: number): Promise<void> {
  const isOff = async () => {
    const { localTime } = await client.db('admin').command({ hello: 1 });
    return Math.abs((localTime.getTime() - Date.now()) / 1_000 - seconds) < 0.4;
  };
  await until(isOff, { everyMs: 20, what: `a clock off by ${seconds} s` });
}

test.each(SERVICES)(
  '%s: five minutes fast, then slow, then right',
  async (name) => {
    const clock = await openClock();
    const servers = await openServers();
    const set = await startServiceSet(servers, (one) => (one === name ? clock.env : {}));
    keep(set, set.stop);
    const ops = set.services.find(({ service }) => service === name)?.ops ?? '';
    for (const seconds of SERVICE_OFFSETS) {
      await clock.setOffset(seconds);
      await untilOffset(ops, seconds);
      await expectDeliveries(set, 0);
      await expectAllReady(set);
    }
  },
  LIMIT_MS,
);

test(
  'MongoDB: a second fast, then slow, then right',
  async () => {
    const clock = await openClock();
    const servers = await openServers(clock.env);
    const client = await new MongoClient(servers.env.MONGODB_URI).connect();
    keep(client, () => client.close());
    const set = await startServiceSet(servers, () => ({}));
    keep(set, set.stop);
    for (const seconds of MONGODB_OFFSETS) {
      await clock.setOffset(seconds);
      await untilMongodbOffset(client, seconds);
      await expectDeliveries(set, Math.max(...MONGODB_OFFSETS) * 1_000);
      await expectAllReady(set);
    }
  },
  LIMIT_MS,
);
