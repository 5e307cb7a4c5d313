import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { countArrivals } from '../support/faults/expect-complete.ts';
import {
  expectClaimedAfterLease,
  expectClaimedAtOnce,
  expectDelivered,
  sendWaiting,
} from '../support/faults/joined-push-ends.ts';
import {
  apiOf,
  ENTRIES_KEY,
  expectInitialClaim,
  type JoinedPushes,
  listRuns,
  OPEN_KEY,
  openJoinedPushes,
} from '../support/faults/joined-pushes.ts';
import { type SentPush, sendPush, untilOutcomes } from '../support/faults/pushes.ts';
import { type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { emptyRedis } from '../support/redis.ts';
import { isStopped } from '../support/stack/processes.ts';
import { until } from '../support/until.ts';

const LIMIT_MS = 120_000;
/** No worker takes an entry under its initial claim after it. */
const LATE_MS = 600;
/** Guarantee G8. */
const LAST_SENT_MS = 1_000;

let joined: JoinedPushes;
let device: MqttDevice;
beforeAll(async () => {
  joined = await openJoinedPushes();
}, LIMIT_MS);
beforeEach(async () => {
  device = await newMqttDevice(joined.set.dev);
  await device.connect();
});
afterEach(async () => {
  await device?.disconnect();
  await joined?.stopProcesses();
}, LIMIT_MS);
afterAll(() => joined?.stop());

/** Stops an API between the insert of a push and its entry, and continues it after a fault. */
async function faultBeforeEntry(fault: () => Promise<unknown>): Promise<SentPush> {
  const api = await joined.startApi('accepted:stop#3');
  await joined.prime(apiOf(joined.set, api));
  const sending = sendPush(apiOf(joined.set, api), device.token);
  await until(() => isStopped(api.pid), { everyMs: 5, what: 'a stopped API' });
  const pushes = joined.mongo.db.collection<{ _id: string }>('pushes');
  const id = (await pushes.findOne({ 'work.tokens': device.token }))?._id ?? '';
  expectInitialClaim(await joined.readBatch({ id }));
  await fault();
  api.kill('SIGCONT');
  return sending;
}

test(
  'without a fault, the push is delivered under its claim',
  async () => {
    await joined.startWorker();
    const [push] = await sendWaiting(joined, device.token);
    await joined.openJobs();
    expectInitialClaim(await expectDelivered(joined, device, push));
  },
  LIMIT_MS,
);

test(
  'Redis is emptied between the insert and the entry: the claim is released, and the device has the push once',
  async () => {
    await joined.startWorker();
    const push = await faultBeforeEntry(() => emptyRedis(joined.redis));
    expectClaimedAtOnce(await expectDelivered(joined, device, push));
  },
  LIMIT_MS,
);

test(
  'the job has ended between the insert and the entry: the claim is released, and a job delivers the push',
  async () => {
    await joined.startWorker();
    const push = await faultBeforeEntry(() => joined.redis.del(OPEN_KEY));
    const isReleased = async () => (await joined.readBatch(push)).claim === undefined;
    await until(isReleased, { everyMs: 5, what: 'a released claim' });
    expect(await joined.redis.llen(ENTRIES_KEY)).toBe(0);
    await until(async () => (await joined.jobs.countLeft()) > 0, { what: 'a job' });
    await joined.jobs.resume('send');
    expectClaimedAtOnce(await expectDelivered(joined, device, push));
  },
  LIMIT_MS,
);

test(
  'Redis is emptied while the entry waits: the device has the push once, after the lease',
  async () => {
    await joined.startWorker();
    const [push] = await sendWaiting(joined, device.token);
    await emptyRedis(joined.redis);
    await joined.openJobs();
    expectClaimedAfterLease(await expectDelivered(joined, device, push));
  },
  LIMIT_MS,
);

test.each<[damage: string, change: (entry: string) => string]>([
  ['is cut', (entry) => entry.slice(0, -20)],
  ['has no contents', (entry) => entry.split(' ')[0] ?? ''],
  ['has null as contents', (entry) => `${entry.split(' ')[0]} null`],
  ['has no JSON as contents', (entry) => `${entry.split(' ')[0]} \u0000{`],
  ['has a number as token', (entry) => entry.replace(/"token":"\w+"/, '"token":1')],
  ['has a time that is no integer', (entry) => entry.replace(/"sendUntil":/, '"sendUntil":0.')],
  ['has no id', (entry) => entry.slice(entry.indexOf(' '))],
  ['has a line end in it', (entry) => entry.replace(',', ',\n')],
  ['is empty', () => ''],
  [
    'has the claim of another push',
    (entry) => entry.replace(/"claim":"[\w-]+"/, '"claim":"other"'),
  ],
])(
  'the entry %s: the device has the push once, after the lease',
  async (_, change) => {
    const worker = await joined.startWorker();
    const [push, entry] = await sendWaiting(joined, device.token);
    const damaged = change(entry);
    expect(damaged).not.toBe(entry);
    await joined.redis.lset(ENTRIES_KEY, 0, damaged);
    await joined.openJobs();
    expectClaimedAfterLease(await expectDelivered(joined, device, push));
    expect(worker.isRunning()).toBe(true);
  },
  LIMIT_MS,
);

test(
  'the entry waits for too long: a worker replaces the claim at once',
  async () => {
    await joined.startWorker();
    const [push] = await sendWaiting(joined, device.token);
    await sleep(LATE_MS);
    await joined.openJobs();
    expectClaimedAtOnce(await expectDelivered(joined, device, push));
  },
  LIMIT_MS,
);

test.each([0, 150, 300, 450])(
  'the push is deleted while its entry waits, which is taken %d ms later: nothing arrives a second after the response',
  async (delayMs) => {
    await joined.startWorker();
    const [push] = await sendWaiting(joined, device.token);
    expect((await joined.set.api('DELETE', `/pushes/${push.id}`)).status).toBe(200);
    const deletedAt = performance.now();
    await sleep(delayMs);
    await joined.openJobs();
    const last = await sendPush(joined.set, device.token);
    await untilOutcomes(joined.mongo, last, { delivered: 1 });
    const times = device.arrivals.flatMap(({ payload, receivedAtMs }) =>
      payload === push.payload ? receivedAtMs - deletedAt : [],
    );
    process.stdout.write(`arrivals of a deleted push: ${times.length}\n`);
    expect(times.length).toBeLessThanOrEqual(1);
    for (const time of times) expect(time).toBeLessThan(LAST_SENT_MS);
    await untilOutcomes(joined.mongo, push, times.length > 0 ? { delivered: 1 } : { deleted: 1 });
    expect(await joined.countRows(push)).toBe(0);
  },
  LIMIT_MS,
);

test(
  'the push is deleted while its entry waits, and the device is offline: no row is left, and it never has the push',
  async () => {
    await joined.startWorker();
    await device.disconnect();
    const [push] = await sendWaiting(joined, device.token);
    expect((await joined.set.api('DELETE', `/pushes/${push.id}`)).status).toBe(200);
    await joined.openJobs();
    await untilOutcomes(joined.mongo, push, { deleted: 1 });
    await until(async () => (await joined.countRows(push)) === 0, { what: 'no row' });
    await device.connect();
    const last = await sendPush(joined.set, device.token);
    await untilOutcomes(joined.mongo, last, { delivered: 1 });
    expect(countArrivals(device, push)).toBe(0);
    expect(await joined.countRows(push)).toBe(0);
  },
  LIMIT_MS,
);

test.each<[time: string, change: (entry: string) => string]>([
  ['late', (entry) => entry],
  // No entry waits until a worker knows of the suspension, unless the machine is slow.
  ['in time', (entry) => entry.replace(/(?<="acceptedAt":)\d+/, String(Date.now()))],
])(
  'the account is suspended while the entry waits, which is taken %s: the push is sent when the account is resumed',
  async (_, change) => {
    const { accounts } = joined.set.store;
    const { account = '' } = (await joined.set.store.apps.find(joined.set.dev.app)) ?? {};
    const [push, entry] = await sendWaiting(joined, device.token);
    await accounts.suspend(account);
    try {
      const worker = await joined.startWorker();
      await joined.redis.lset(ENTRIES_KEY, 0, change(entry));
      await joined.openJobs();
      await until(() => listRuns(worker, push).length > 0, { what: 'a run of the push' });
      expect(listRuns(worker, push)).not.toContain('settled');
      expect(countArrivals(device, push)).toBe(0);
    } finally {
      await accounts.resume(account);
    }
    expect((await expectDelivered(joined, device, push)).tries).toBeGreaterThan(1);
  },
  LIMIT_MS,
);
