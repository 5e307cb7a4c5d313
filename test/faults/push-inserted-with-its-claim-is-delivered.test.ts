import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { countArrivals } from '../support/faults/expect-complete.ts';
import {
  expectClaimedAfterLease,
  expectDelivered,
  untilClaimedByWorker,
} from '../support/faults/joined-push-ends.ts';
import {
  apiOf,
  expectInitialClaim,
  type JoinedPushes,
  openJoinedPushes,
} from '../support/faults/joined-pushes.ts';
import { untilKilled } from '../support/faults/killed-service.ts';
import { type SentPush, sendPush, untilOutcomes } from '../support/faults/pushes.ts';
import { createMqttDevice, type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import type { ServiceProcess } from '../support/operators/service-process.ts';
import { registerDevice } from '../support/register-device.ts';
import { isStopped } from '../support/stack/processes.ts';
import { until } from '../support/until.ts';

const LIMIT_MS = 120_000;

let joined: JoinedPushes;
let device: MqttDevice;
beforeAll(async () => {
  joined = await openJoinedPushes();
}, LIMIT_MS);
afterEach(async () => {
  await device?.disconnect();
  await joined?.stopProcesses();
}, LIMIT_MS);
afterAll(() => joined?.stop());

async function connectDevice(): Promise<MqttDevice> {
  device = await newMqttDevice(joined.set.dev);
  await device.connect();
  return device;
}

/** Sends a push to a worker that keeps a job open, and waits until the worker has ended itself under the initial claim. */
async function killUnderInitialClaim(failpoints: string, token: string): Promise<SentPush> {
  const killed = await joined.startWorker(failpoints);
  await joined.prime();
  await joined.openJobs();
  const push = await joined.sendClaimed(token);
  await untilKilled(killed, failpoints);
  expectInitialClaim(await joined.readBatch(push));
  return push;
}

describe('its worker is killed', () => {
  const FAILPOINTS = ['claim', 'deliver', 'dispatch', 'dispatched', 'settle', 'settled'] as const;

  test.each(FAILPOINTS)(
    'at %s: the connected device has it once',
    async (name) => {
      await connectDevice();
      const push = await killUnderInitialClaim(`${name}:kill#1`, device.token);
      await joined.startWorker();
      await expectDelivered(joined, device, push);
    },
    LIMIT_MS,
  );

  test.each(FAILPOINTS)(
    'at %s: the device that has reconnected since has it once',
    async (name) => {
      await connectDevice();
      const push = await killUnderInitialClaim(`${name}:kill#1`, device.token);
      const before = countArrivals(device, push);
      expect(before).toBe(['claim', 'deliver', 'dispatch'].includes(name) ? 0 : 1);
      await device.connect();
      await joined.startWorker();
      await expectDelivered(joined, device, push);
    },
    LIMIT_MS,
  );

  test.each([...FAILPOINTS, 'rows', 'rows-written'])(
    'at %s: the device that is offline has one row, and the push once after it has connected',
    async (name) => {
      device = createMqttDevice({
        ...(await registerDevice(joined.set.dev)),
        url: joined.set.dev.mqtt,
      });
      const push = await killUnderInitialClaim(`${name}:kill#1`, device.token);
      await joined.startWorker();
      await untilOutcomes(joined.mongo, push, { inbox: 1 });
      expect(await joined.countRows(push)).toBe(1);
      await device.connect();
      await expectDelivered(joined, device, push);
    },
    LIMIT_MS,
  );

  test.each(['before', 'after'])(
    'while it waits for the receipt, which comes %s the kill: the device that has reconnected has it once',
    async (time) => {
      await connectDevice();
      device.holdReceipts();
      const killed = await joined.startWorker('dispatched:kill#1,settle:kill#1');
      await joined.prime();
      await joined.openJobs();
      const push = await joined.sendClaimed(device.token);
      await until(() => countArrivals(device, push) === 1, { everyMs: 2 });
      if (time === 'after') killed.kill('SIGKILL');
      if (time === 'after') await killed.exited;
      device.releaseReceipts();
      await killed.exited;
      expectInitialClaim(await joined.readBatch(push));
      // Its receipt has arrived before the end of the connection.
      const later = await sendPush(joined.set, device.token, { time_to_live: 0 });
      await device.connect();
      await joined.startWorker();
      await expectDelivered(joined, device, push);
      expect(countArrivals(device, later)).toBeLessThanOrEqual(1);
    },
    LIMIT_MS,
  );

  test(
    'without a receipt: the device that has reconnected has it at most once more, and it counts once',
    async () => {
      await connectDevice();
      device.holdReceipts();
      const killed = await joined.startWorker();
      await joined.prime();
      await joined.openJobs();
      const push = await joined.sendClaimed(device.token);
      await until(() => countArrivals(device, push) === 1, { everyMs: 2 });
      killed.kill('SIGKILL');
      await killed.exited;
      device.cut();
      device.releaseReceipts();
      await device.connect();
      expectInitialClaim(await joined.readBatch(push));
      await joined.startWorker();
      await expectDelivered(joined, device, push, 2);
    },
    LIMIT_MS,
  );
});

describe('its worker is stopped', () => {
  test.each(['claim', 'deliver', 'dispatch', 'dispatched', 'settle'])(
    'at %s: the worker ends by itself, and the device has the push once',
    async (name) => {
      await connectDevice();
      const stopped = await joined.startWorker(`${name}:stop#1`);
      await joined.prime();
      await joined.openJobs();
      const push = await joined.sendClaimed(device.token);
      await until(() => isStopped(stopped.pid), { everyMs: 2, what: 'a frozen worker' });
      // It continues within the lease, and learns of the signal in its next turn.
      stopped.kill('SIGTERM');
      stopped.kill('SIGCONT');
      expect(await stopped.exited).toBe(0);
      await joined.startWorker();
      await expectDelivered(joined, device, push);
    },
    LIMIT_MS,
  );
});

describe('its worker is frozen', () => {
  /** Sends a push whose worker stops itself under the initial claim, until another one has taken the push over. */
  async function freezeUnderInitialClaim(name: string): Promise<[SentPush, ServiceProcess]> {
    const frozen = await joined.startWorker(`${name}:stop#1`);
    await joined.prime();
    await joined.openJobs();
    const push = await joined.sendClaimed(device.token);
    await until(() => isStopped(frozen.pid), { what: 'a stopped worker' });
    expectInitialClaim(await joined.readBatch(push));
    await joined.startWorker();
    await untilClaimedByWorker(joined, push);
    return [push, frozen];
  }

  test.each(['claim', 'deliver', 'dispatch', 'dispatched', 'settle'])(
    'at %s, for longer than the lease: it writes nothing more, and the device has the push once',
    async (name) => {
      await connectDevice();
      const [push, frozen] = await freezeUnderInitialClaim(name);
      await untilOutcomes(joined.mongo, push, { delivered: 1 });
      const settled = await joined.readBatch(push);
      await device.connect();
      frozen.kill('SIGCONT');
      const end = `"work":"${push.id}"`;
      await until(() => frozen.output().includes(end), { what: 'the end of its run' });
      await expectDelivered(joined, device, push);
      expect(await joined.readBatch(push)).toEqual(settled);
    },
    LIMIT_MS,
  );
});

describe('its API is killed before the push has an entry', () => {
  test.each(['connected', 'offline'])(
    'the device, which is %s, has it once after the lease',
    async (state) => {
      await connectDevice();
      if (state === 'offline') await device.disconnect();
      // The first two make it see that a job is open.
      const killed = await joined.startApi('accepted:kill#3');
      const api = apiOf(joined.set, killed);
      await joined.prime(api);
      await expect(sendPush(api, device.token)).rejects.toThrow();
      await untilKilled(killed, 'accepted:kill#3');
      const pushes = joined.mongo.db.collection<{ _id: string; data: string }>('pushes');
      const found = await pushes.find({ 'work.tokens': device.token }).toArray();
      expect(found).toHaveLength(1);
      const [{ _id: id = '', data: payload = '' } = {}] = found;
      const push = { id, payload, devices: 1 };
      expectInitialClaim(await joined.readBatch(push));
      await joined.startWorker();
      await joined.openJobs();
      await untilClaimedByWorker(joined, push);
      expectClaimedAfterLease(await joined.readBatch(push));
      if (state === 'offline') {
        await untilOutcomes(joined.mongo, push, { inbox: 1 });
        expect(await joined.countRows(push)).toBe(1);
        await device.connect();
      }
      await expectDelivered(joined, device, push);
    },
    LIMIT_MS,
  );

  test(
    'the push can be deleted, and the device never has it',
    async () => {
      await connectDevice();
      const killed = await joined.startApi('accepted:kill#3');
      const api = apiOf(joined.set, killed);
      await joined.prime(api);
      await expect(sendPush(api, device.token)).rejects.toThrow();
      await untilKilled(killed, 'accepted:kill#3');
      const pushes = joined.mongo.db.collection<{ _id: string }>('pushes');
      const id = (await pushes.findOne({ 'work.tokens': device.token }))?._id ?? '';
      expectInitialClaim(await joined.readBatch({ id }));
      expect((await joined.set.api('DELETE', `/pushes/${id}`)).status).toBe(200);
      await joined.startWorker();
      await joined.openJobs();
      await untilOutcomes(joined.mongo, { id }, { deleted: 1 });
      const last = await sendPush(joined.set, device.token);
      await untilOutcomes(joined.mongo, last, { delivered: 1 });
      expect(device.arrivals.map(({ payload }) => payload)).toEqual([last.payload]);
    },
    LIMIT_MS,
  );
});
