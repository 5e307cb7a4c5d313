import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { newDeviceToken } from '../../packages/core/src/ids.ts';
import { insertDevices } from '../support/faults/device-pool.ts';
import { countArrivals } from '../support/faults/expect-complete.ts';
import { type KilledService, openKilledService } from '../support/faults/killed-service.ts';
import { type SentPush, sendPush, untilOutcomes } from '../support/faults/pushes.ts';
import { subscribePool } from '../support/faults/subscribe-pool.ts';
import { createMqttDevice, type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { until } from '../support/until.ts';

const CONNECTED = 3;
const OFFLINE = 3;
/** Two pages, and so two batches. */
const SUBSCRIBERS = 1_500;
const LIMIT_MS = 120_000;
const DUE_AFTER_SECONDS = 2;

/** The process of one service. */
let killed: KilledService;
let offline: string[];

async function open(service: Parameters<typeof openKilledService>[0]): Promise<void> {
  killed = await openKilledService(service);
  offline = Array.from({ length: OFFLINE }, newDeviceToken);
  await insertDevices(killed.set, killed.mongo, offline);
}

const countRows = ({ id }: SentPush) =>
  killed.mongo.db.collection('inbox').countDocuments({ push: id });

async function untilNoRows(push: SentPush): Promise<void> {
  await until(async () => (await countRows(push)) === 0, { timeoutMs: 40_000, what: 'no rows' });
}

describe('a delivery-worker that is killed', () => {
  let devices: MqttDevice[] = [];
  let topic: string;
  beforeAll(async () => {
    await open('delivery-worker');
    const { set, mongo } = killed;
    devices = await Promise.all(Array.from({ length: CONNECTED }, () => newMqttDevice(set.dev)));
    await Promise.all(devices.map((device) => device.connect()));
    const tokens = Array.from({ length: SUBSCRIBERS }, newDeviceToken);
    await insertDevices(set, mongo, tokens);
    topic = await subscribePool({ stack: set, mongo, pool: { tokens, devices: [] } }, 'crowd');
  }, LIMIT_MS);
  afterAll(async () => {
    await Promise.all(devices.map((device) => device.disconnect()));
    await killed?.stop();
  });

  const listConnected = () => devices.map(({ token }) => token);

  test.each<string>(['release:kill#1', 'page:kill#1', 'page:kill#2', 'page-inserted:kill#1'])(
    'in a fan-out, at %s: each subscriber has one row',
    async (failpoints) => {
      const { caused: push } = await killed.killAt(failpoints, () => sendPush(killed.set, topic));
      await untilOutcomes(killed.mongo, push, { inbox: SUBSCRIBERS });
      expect(await countRows(push)).toBe(SUBSCRIBERS);
    },
    LIMIT_MS,
  );

  test.each<string>([
    'claim:kill#1',
    'deliver:kill#1',
    'dispatch:kill#1',
    'dispatched:kill#1',
    'rows:kill#1',
    'rows-written:kill#1',
    'settle:kill#1',
    'settled:kill#1',
  ])(
    'at %s: connected devices have the push once, the others have one row',
    async (failpoints) => {
      const send = () => sendPush(killed.set, [...listConnected(), ...offline]);
      const { caused: push } = await killed.killAt(failpoints, send);
      await untilOutcomes(killed.mongo, push, { delivered: CONNECTED, inbox: OFFLINE });
      expect(await countRows(push)).toBe(OFFLINE);
      // Everything still in flight arrives before another push.
      const last = await sendPush(killed.set, listConnected());
      await untilOutcomes(killed.mongo, last, { delivered: CONNECTED });
      expect(devices.map((device) => countArrivals(device, push))).toEqual([1, 1, 1]);
    },
    LIMIT_MS,
  );

  test.each(['claim', 'deliver', 'dispatch', 'dispatched', 'settle', 'settled'])(
    'with a push to one device, at %s: it has the push once',
    async (failpoint) => {
      const failpoints = `${failpoint}:kill#1`;
      const [device, ...others] = devices;
      const token = device?.token ?? '';
      const { caused: push } = await killed.killAt(failpoints, () => sendPush(killed.set, token));
      await untilOutcomes(killed.mongo, push, { delivered: 1 });
      const last = await sendPush(killed.set, token);
      await untilOutcomes(killed.mongo, last, { delivered: 1 });
      expect(device && countArrivals(device, push)).toBe(1);
      expect(others.map((other) => countArrivals(other, push))).toEqual([0, 0]);
    },
    LIMIT_MS,
  );

  test.each<string>(['completion:kill#1', 'completion-counted:kill#1'])(
    'while it ends a deleted push, at %s: each recipient ends as deleted, and no row is left',
    async (failpoints) => {
      const { caused: push } = await killed.killAt(failpoints, async () => {
        const sent = await sendPush(killed.set, offline);
        await untilOutcomes(killed.mongo, sent, { inbox: OFFLINE });
        expect((await killed.set.api('DELETE', `/pushes/${sent.id}`)).status).toBe(200);
        return sent;
      });
      await untilOutcomes(killed.mongo, push, { deleted: OFFLINE });
      await untilNoRows(push);
    },
    LIMIT_MS,
  );
});

describe('a gateway that is killed', () => {
  beforeAll(() => open('device-gateway'), LIMIT_MS);
  afterAll(() => killed?.stop());

  const urlOf = ({ port }: { port: number }) => `mqtt://127.0.0.1:${port}`;

  test.each<[failpoints: string, from: 'connection' | 'inbox']>([
    ['publish:kill#1', 'connection'],
    ['replay:kill#1', 'inbox'],
    ['receipt:kill#1', 'inbox'],
    ['receipt-recorded:kill#1', 'inbox'],
  ])(
    'at %s, over a push of the %s: the device gets it, at most twice, and counts once',
    async (failpoints, from) => {
      const { set, mongo } = killed;
      const credentials = await newMqttDevice(set.dev);
      const { caused, successor } = await killed.killAt(failpoints, async (gateway) => {
        const device = createMqttDevice({ ...credentials, url: urlOf(gateway) });
        if (from === 'connection') await device.connect();
        const push = await sendPush(set, device.token);
        if (from === 'connection') return { device, push };
        await untilOutcomes(mongo, push, { inbox: 1 });
        await device.connect();
        return { device, push };
      });
      const { device, push } = caused;
      const again = createMqttDevice({ ...credentials, url: urlOf(successor) });
      await again.connect();
      await untilOutcomes(mongo, push, { delivered: 1 });
      await untilNoRows(push);
      const arrivals = [device, again].map((one) => countArrivals(one, push));
      expect(Math.max(...arrivals)).toBe(1);
      await Promise.all([device.disconnect(), again.disconnect()]);
    },
    LIMIT_MS,
  );
});

describe('a scheduler that is killed', () => {
  beforeAll(() => open('scheduler'), LIMIT_MS);
  afterAll(() => killed?.stop());

  test(
    'when it has opened pushes that are due, at opened:kill#1: they are sent once, and not early',
    async () => {
      const { set, mongo } = killed;
      const device = await newMqttDevice(set.dev);
      await device.connect();
      let schedule = 0;
      const { caused: push } = await killed.killAt('opened:kill#1', () => {
        schedule = Math.ceil(Date.now() / 1_000) + DUE_AFTER_SECONDS;
        return sendPush(set, device.token, { schedule });
      });
      await untilOutcomes(mongo, push, { delivered: 1 });
      const arrivals = device.arrivals.map(({ payload }) => payload);
      expect(arrivals).toEqual([push.payload]);
      const arrivedAt = performance.timeOrigin + (device.arrivals[0]?.receivedAtMs ?? 0);
      expect(arrivedAt).toBeGreaterThanOrEqual(schedule * 1_000);
      await device.disconnect();
    },
    LIMIT_MS,
  );

  test.each<string>(['purge:kill#1', 'purge-rows:kill#1'])(
    'while it removes a push after its retention, at %s: nothing of it is left',
    async (failpoints) => {
      const { set, mongo } = killed;
      const tokens = Array.from({ length: SUBSCRIBERS }, newDeviceToken);
      await insertDevices(set, mongo, tokens);
      const pushes = mongo.db.collection<{ _id: string }>('pushes');
      const { caused: push } = await killed.killAt(failpoints, async () => {
        const sent = await sendPush(set, tokens);
        await untilOutcomes(mongo, sent, { inbox: SUBSCRIBERS });
        // A push that has ended while a frozen process still had rows to write.
        const ended = { state: 'finished', purgeAt: new Date(0) };
        await pushes.updateOne({ _id: sent.id }, { $set: ended });
        return sent;
      });
      const isGone = async () => (await pushes.findOne({ _id: push.id })) === null;
      await until(isGone, { timeoutMs: 40_000, what: 'the removal' });
      expect(await mongo.db.collection('batches').countDocuments({ push: push.id })).toBe(0);
      expect(await countRows(push)).toBe(0);
    },
    LIMIT_MS,
  );
});
