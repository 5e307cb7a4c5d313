import { randomBytes, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { fallbackBatchId, newDeviceToken } from '../../packages/core/src/ids.ts';
import type {
  AppDocument,
  BatchDocument,
  DeviceDocument,
  PushDocument,
} from '../../packages/store/src/documents.ts';
import { postWithoutKey } from '../support/api/keyless-calls.ts';
import { insertDevices } from '../support/faults/device-pool.ts';
import { countArrivals } from '../support/faults/expect-complete.ts';
import { attemptPush, type SentPush, sendPush, untilOutcomes } from '../support/faults/pushes.ts';
import { openServiceSet, type ServiceSet } from '../support/faults/service-set.ts';
import { subscribePool } from '../support/faults/subscribe-pool.ts';
import { pushWithIdempotencyKey } from '../support/guarantees/push-with-key.ts';
import { createMqttDevice, type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { isStopped } from '../support/stack/processes.ts';
import { until } from '../support/until.ts';

const CONNECTED = 3;
const OFFLINE = 3;
/** Two pages, and so two batches. */
const SUBSCRIBERS = 1_500;
const LIMIT_MS = 120_000;
const DUE_AFTER_SECONDS = 2;
const ENDED = { timeoutMs: 60_000 };

let set: ServiceSet;
beforeAll(async () => {
  set = await openServiceSet();
}, LIMIT_MS);
afterAll(() => set?.stop());

/** Registers devices that are never connected. */
async function registerOffline(count = OFFLINE): Promise<string[]> {
  const tokens = Array.from({ length: count }, newDeviceToken);
  await insertDevices(set, set.mongo, tokens);
  return tokens;
}

const pushes = () => set.mongo.db.collection<PushDocument>('pushes');
const countRows = (...ids: string[]) =>
  set.mongo.db.collection('inbox').countDocuments({ push: { $in: ids } });

async function untilNoRows({ id }: SentPush): Promise<void> {
  await until(async () => (await countRows(id)) === 0, { ...ENDED, what: 'no rows' });
}

describe('a delivery-worker that is killed', () => {
  let devices: MqttDevice[] = [];
  let offline: string[];
  let topic: string;
  beforeAll(async () => {
    devices = await Promise.all(Array.from({ length: CONNECTED }, () => newMqttDevice(set.dev)));
    await Promise.all(devices.map((device) => device.connect()));
    offline = await registerOffline();
    const pool = { tokens: await registerOffline(SUBSCRIBERS), devices: [] };
    topic = await subscribePool({ stack: set, mongo: set.mongo, pool }, 'crowd');
  }, LIMIT_MS);
  afterAll(() => Promise.all(devices.map((device) => device.disconnect())));

  const killAt = <T>(failpoints: string, cause: () => Promise<T>) =>
    set.killAt('delivery-worker', failpoints, cause);
  const listConnected = () => devices.map(({ token }) => token);

  test.each<string>(['release:kill#1', 'page:kill#1', 'page:kill#2', 'page-inserted:kill#1'])(
    'in a fan-out, at %s: each subscriber has one row',
    async (failpoints) => {
      const { caused: push } = await killAt(failpoints, () => sendPush(set, topic));
      await untilOutcomes(set.mongo, push, { inbox: SUBSCRIBERS });
      expect(await countRows(push.id)).toBe(SUBSCRIBERS);
    },
    LIMIT_MS,
  );

  test.each<string>([
    ...['claim:kill#1', 'deliver:kill#1', 'dispatch:kill#1', 'dispatched:kill#1'],
    ...['rows:kill#1', 'rows-written:kill#1', 'settle:kill#1', 'settled:kill#1'],
  ])(
    'at %s: connected devices have the push once, the others have one row',
    async (failpoints) => {
      const send = () => sendPush(set, [...listConnected(), ...offline]);
      const { caused: push } = await killAt(failpoints, send);
      await untilOutcomes(set.mongo, push, { delivered: CONNECTED, inbox: OFFLINE });
      expect(await countRows(push.id)).toBe(OFFLINE);
      // Everything still in flight arrives before another push.
      const last = await sendPush(set, listConnected());
      await untilOutcomes(set.mongo, last, { delivered: CONNECTED });
      expect(devices.map((device) => countArrivals(device, push))).toEqual([1, 1, 1]);
    },
    LIMIT_MS,
  );

  test.each(['claim', 'deliver', 'dispatch', 'dispatched', 'settle', 'settled'])(
    'with a push to one device, at %s: it has the push once',
    async (failpoint) => {
      const [device, ...others] = devices;
      const token = device?.token ?? '';
      const { caused: push } = await killAt(`${failpoint}:kill#1`, () => sendPush(set, token));
      await untilOutcomes(set.mongo, push, { delivered: 1 });
      const last = await sendPush(set, token);
      await untilOutcomes(set.mongo, last, { delivered: 1 });
      expect(device && countArrivals(device, push)).toBe(1);
      expect(others.map((other) => countArrivals(other, push))).toEqual([0, 0]);
    },
    LIMIT_MS,
  );

  test(
    'between receipts and settlement: the time is that of the receipts, not that at which another worker took the batch over',
    async () => {
      const { caused } = await set.killAt('delivery-worker', 'settle:kill#1', async (worker) => {
        const push = await sendPush(set, listConnected());
        await worker.exited;
        const { localTime } = await set.mongo.db.admin().command({ hello: 1 });
        return { push, endedMs: Number(localTime) };
      });
      const { push, endedMs } = caused;
      await untilOutcomes(set.mongo, push, { delivered: CONNECTED });
      // No device got it twice: the successor knows the receipts from the gateway's replies.
      expect(devices.map((device) => countArrivals(device, push))).toEqual([1, 1, 1]);
      const stored = await pushes().findOne({ _id: push.id });
      const { json } = await set.api<{ latency?: { count: number; max: number } }>(
        'GET',
        `/pushes/${push.id}/outcomes`,
      );
      expect(json.latency?.count).toBe(CONNECTED);
      // Seconds are between both, so the clocks of Redis and MongoDB may differ.
      const lastMs = Number(stored?.acceptedAt) + (json.latency?.max ?? 0);
      expect(lastMs).toBeLessThan((endedMs + Number(stored?.work?.closedAt)) / 2);
    },
    LIMIT_MS,
  );

  test.each<string>(['completion:kill#1', 'completion-counted:kill#1'])(
    'while it ends a deleted push, at %s: each recipient ends as deleted, and no row is left',
    async (failpoints) => {
      const { caused: push } = await killAt(failpoints, async () => {
        const sent = await sendPush(set, offline);
        await untilOutcomes(set.mongo, sent, { inbox: OFFLINE });
        expect((await set.api('DELETE', `/pushes/${sent.id}`)).status).toBe(200);
        return sent;
      });
      await untilOutcomes(set.mongo, push, { deleted: OFFLINE });
      await untilNoRows(push);
    },
    LIMIT_MS,
  );
});

test.each<[failpoints: string, from: 'connection' | 'inbox']>([
  ['publish:kill#1', 'connection'],
  ['replay:kill#1', 'inbox'],
  ['receipt:kill#1', 'inbox'],
  ['receipt-recorded:kill#1', 'inbox'],
])(
  'a gateway that is killed at %s, over a push of the %s: the device gets it, at most twice, and counts once',
  async (failpoints, from) => {
    const credentials = await newMqttDevice(set.dev);
    const createDevice = () => createMqttDevice({ ...credentials, url: set.dev.mqtt });
    const { caused } = await set.killAt('device-gateway', failpoints, async () => {
      const device = createDevice();
      if (from === 'connection') await device.connect();
      const push = await sendPush(set, device.token);
      if (from === 'connection') return { device, push };
      await untilOutcomes(set.mongo, push, { inbox: 1 });
      await device.connect();
      return { device, push };
    });
    const { device, push } = caused;
    const again = createDevice();
    await again.connect();
    await untilOutcomes(set.mongo, push, { delivered: 1 });
    await untilNoRows(push);
    const arrivals = [device, again].map((one) => countArrivals(one, push));
    expect(Math.max(...arrivals)).toBe(1);
    await Promise.all([device.disconnect(), again.disconnect()]);
  },
  LIMIT_MS,
);

test(
  'a scheduler that is killed when it has opened pushes that are due, at opened:kill#1: they are sent once, and not early',
  async () => {
    const device = await newMqttDevice(set.dev);
    await device.connect();
    let schedule = 0;
    const { caused: push } = await set.killAt('scheduler', 'opened:kill#1', () => {
      schedule = Math.ceil(Date.now() / 1_000) + DUE_AFTER_SECONDS;
      return sendPush(set, device.token, { schedule });
    });
    await untilOutcomes(set.mongo, push, { delivered: 1 });
    expect(device.arrivals.map(({ payload }) => payload)).toEqual([push.payload]);
    const arrivedAt = performance.timeOrigin + (device.arrivals[0]?.receivedAtMs ?? 0);
    expect(arrivedAt).toBeGreaterThanOrEqual(schedule * 1_000);
    await device.disconnect();
  },
  LIMIT_MS,
);

test.each<string>(['purge:kill#1', 'purge-rows:kill#1'])(
  'a scheduler that is killed while it removes a push after its retention, at %s: nothing of it is left',
  async (failpoints) => {
    const tokens = await registerOffline(SUBSCRIBERS);
    const { caused: push } = await set.killAt('scheduler', failpoints, async () => {
      const sent = await sendPush(set, tokens);
      await untilOutcomes(set.mongo, sent, { inbox: SUBSCRIBERS });
      // A push that has ended while a frozen process still had rows to write.
      const ended = { state: 'finished' as const, purgeAt: new Date(0) };
      await pushes().updateOne({ _id: sent.id }, { $set: ended });
      return sent;
    });
    const isGone = async () => (await pushes().findOne({ _id: push.id })) === null;
    await until(isGone, { ...ENDED, what: 'the removal' });
    expect(await set.mongo.db.collection('batches').countDocuments({ push: push.id })).toBe(0);
    expect(await countRows(push.id)).toBe(0);
  },
  LIMIT_MS,
);

test.each<[failpoints: string, recipients: number, accepted: number]>([
  ['accept:kill#1', 3, 0],
  ['accept:kill#1', 2_000, 0],
  ['accept-batches:kill#1', 2_000, 0],
  ['accepted:kill#1', 3, 1],
  ['accepted:kill#1', 2_000, 1],
])(
  'an API that is killed at %s, with a push to %d devices: %d accepted',
  async (failpoints, recipients, accepted) => {
    const tokens = await registerOffline(recipients);
    const { caused } = await set.killAt('api', failpoints, () => attemptPush(set, tokens));
    expect(caused).toMatchObject({ isAccepted: false });
    const stored = { data: caused.payload, state: { $ne: 'accepting' as const } };
    const found = await pushes().find(stored).toArray();
    expect(found).toHaveLength(accepted);
    const next = await sendPush(set, tokens);
    const ids = [next.id, ...found.map(({ _id }) => _id)];
    for (const id of ids) await untilOutcomes(set.mongo, { id }, { inbox: recipients });
    expect(await countRows(...ids)).toBe((accepted + 1) * recipients);
  },
  LIMIT_MS,
);

test.each([3, 1_500])(
  'an API that is suspended before it inserts a push to %d devices: its late insert finds the push of the repeated request',
  async (recipients) => {
    const key = randomUUID();
    const tokens = await registerOffline(recipients);
    const body = JSON.stringify({ to: tokens, data: { key } });
    const suspended = await set.start('api', { FAILPOINTS: 'accept:stop#1' });
    await suspended.untilReady();
    const api = `http://127.0.0.1:${suspended.port}`;
    const first = pushWithIdempotencyKey({ ...set.dev, api }, key, body);
    await until(() => isStopped(suspended.pid), { what: 'a stopped API' });
    const repeated = await pushWithIdempotencyKey(set.dev, key, body);
    expect(repeated).toMatchObject({ status: 200, json: { info: { devices: recipients } } });
    suspended.kill('SIGCONT');
    expect((await first).text).toBe(repeated.text);
    const found = await pushes()
      .find({ data: JSON.stringify({ key }) })
      .toArray();
    expect(found.map(({ _id }) => _id)).toEqual([repeated.json.id]);
    await untilOutcomes(set.mongo, { id: repeated.json.id }, { inbox: recipients });
    expect(await countRows(repeated.json.id)).toBe(recipients);
  },
  LIMIT_MS,
);

describe('a process that is killed, or frozen, while a phone registers its address again', () => {
  const devices = () => set.mongo.db.collection<DeviceDocument>('devices');
  const apps = () => set.mongo.db.collection<AppDocument>('apps');
  /** Former phones are reached by FCM, for which the app has a credential: one that no worker can open. */
  async function useFcm(fcm: number | null): Promise<void> {
    const { app } = set.dev;
    await apps().updateOne({ _id: app }, { $set: { fcm } });
    const credentials = set.mongo.db.collection<{ _id: string }>('credentials');
    const _id = `${app}:fcm`;
    await credentials.deleteOne({ _id });
    const document = { _id, app, channel: 'fcm', about: {}, revision: 'one' };
    if (fcm !== null) await credentials.insertOne(document);
  }
  beforeAll(() => useFcm(0));
  afterAll(() => useFcm(null));

  async function post(path: string, body: object) {
    const { status, json } = await postWithoutKey(set.dev.api, path, body);
    expect(status).toBe(200);
    return json;
  }
  const registerAndroid = (fields: object = {}) =>
    post('/register', { appId: set.dev.app, platform: 'android', sdk: 1, ...fields });
  const register = async (fcmToken: string) => String((await registerAndroid({ fcmToken })).token);
  async function findHolders(fcmToken: string): Promise<string[]> {
    const held = { 'provider.address': fcmToken, 'provider.formerOf': { $exists: false } };
    return (await devices().find(held).toArray()).map(({ _id }) => _id);
  }
  const isCleared = async (token: string) =>
    (await devices().countDocuments({ _id: token, leaving: { $exists: false } })) === 1;
  const topicsOf = async (token: string) =>
    (await set.api<{ subscriptions: string[] }>('GET', `/devices/${token}`)).json.subscriptions;

  /** A device with a topic, and with a push in its inbox from before it had an FCM token. */
  async function registerWithPush() {
    const fcmToken = `fcm:${randomBytes(20).toString('hex')}`;
    const device = await registerAndroid();
    const token = String(device.token);
    const topics = [randomUUID()];
    expect((await set.api('POST', '/topics/subscribe', { token, topics })).status).toBe(200);
    const push = await sendPush(set, token);
    await untilOutcomes(set.mongo, push, { inbox: 1 });
    await post('/devices/token', { ...device, fcmToken });
    return { fcmToken, token, topics, push };
  }

  test(
    'the API before the new device is written: the phone is the former device again, or the next one',
    async () => {
      const { fcmToken, token, topics } = await registerWithPush();
      await set.killAt('api', 'address-released:kill#1', () =>
        expect(register(fcmToken)).rejects.toThrow('fetch failed'),
      );
      await until(() => isCleared(token), { ...ENDED, what: 'a device with its address' });
      expect(await findHolders(fcmToken)).toEqual([token]);
      expect(await topicsOf(token)).toEqual(topics);
      const next = await register(fcmToken);
      expect(await findHolders(fcmToken)).toEqual([next]);
      expect([await topicsOf(token), await topicsOf(next)]).toEqual([[], topics]);
    },
    LIMIT_MS,
  );

  test.each(['topics-added:kill#1', 'rows-offered:kill#1'])(
    'the API at %s: the new device has the topics, and FCM is offered the push',
    async (failpoints) => {
      const { fcmToken, token, topics, push } = await registerWithPush();
      await set.killAt('api', failpoints, () =>
        expect(register(fcmToken)).rejects.toThrow('fetch failed'),
      );
      await until(() => isCleared(token), { ...ENDED, what: 'a cleared device' });
      const [next = ''] = await findHolders(fcmToken);
      expect(next).not.toBe(token);
      expect([await topicsOf(token), await topicsOf(next)]).toEqual([[], topics]);
      const fallbacks = set.mongo.db.collection('batches').find({ push: push.id });
      expect(await fallbacks.toArray()).toMatchObject([
        { _id: fallbackBatchId(push.id, 0), work: { channel: 'fcm', n: 1, tokens: token } },
      ]);
    },
    LIMIT_MS,
  );

  test(
    'a worker that is about to store a fallback for later: FCM is offered the push as soon as it goes on',
    async () => {
      await useFcm(3_600);
      const fcmToken = `fcm:${randomBytes(20).toString('hex')}`;
      const phone = await newMqttDevice(set.dev, 'android');
      await phone.connect();
      await phone.disconnect();
      const { token, auth } = phone;
      await post('/devices/token', { token, auth, fcmToken });
      const { caused: push } = await set.killAt(
        ...(['delivery-worker', 'fallback:stop#1'] as const),
        async (worker) => {
          const sent = await sendPush(set, token);
          await until(() => isStopped(worker.pid), { what: 'a stopped worker' });
          await register(fcmToken);
          expect(await isCleared(token)).toBe(false);
          worker.kill('SIGCONT');
          await untilOutcomes(set.mongo, sent, { inbox: 1 });
          await until(() => isCleared(token), { ...ENDED, what: 'a cleared device' });
          worker.kill('SIGKILL');
          return sent;
        },
      );
      const isTaken = async () => {
        const batches = set.mongo.db.collection<BatchDocument>('batches');
        const [fallback, ...others] = await batches.find({ push: push.id }).toArray();
        expect([fallback?.work.tokens, others]).toEqual([token, []]);
        return (fallback?.work.tries ?? 0) > 0;
      };
      await until(isTaken, { ...ENDED, what: 'a worker that takes the fallback' });
      await useFcm(0);
    },
    LIMIT_MS,
  );

  test(
    'the API, and the app does not use FCM: one device has the address when the registration is repeated',
    async () => {
      const { fcmToken, token } = await registerWithPush();
      await useFcm(null);
      await set.killAt('api', 'address-released:kill#1', () =>
        expect(register(fcmToken)).rejects.toThrow('fetch failed'),
      );
      expect(await findHolders(fcmToken)).toEqual([]);
      const repeated = await register(fcmToken);
      expect(await findHolders(fcmToken)).toEqual([repeated]);
      // The API died before it cleared the device: the scheduler does so.
      await until(() => isCleared(token), { ...ENDED, what: 'a cleared device' });
      expect(await devices().findOne({ _id: token })).toHaveProperty('deletedAt');
    },
    LIMIT_MS,
  );
});
