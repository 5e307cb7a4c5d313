import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { PUSH_KINDS, TOPIC_SUFFIXES } from '../../packages/core/src/channels/apns.ts';
import type { DeviceDocument } from '../../packages/store/src/documents.ts';
import type { TestTenant } from '../support/api/tenants.ts';
import { runCarillonHere } from '../support/carillon.ts';
import { getDeviceInfo, type Sent, send } from '../support/end-to-end/pushes.ts';
import { bothOf, whileFrozen } from '../support/guarantees/while-frozen.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { createMqttDevice } from '../support/mqtt-device.ts';
import type { ProviderDevice } from '../support/providers/devices.ts';
import { openProvidersOf, type ProviderFixture } from '../support/providers/fixture.ts';
import { untilFinal } from '../support/providers/outcomes.ts';
import type { Credentials } from '../support/register-device.ts';
import { useKillableStack } from '../support/shared-stack.ts';
import { until } from '../support/until.ts';

const WORKER = 'delivery-worker';
const BUNDLE = 'com.example.carillon';
const UPDATES = 1_000;
/** Requests of the backend in flight. */
const AT_ONCE = 4;
/** Updates accepted when a worker is killed. */
const KILLED_AFTER = [400, 950];
const DAY = 86_400;
/** MQTT 3.1.1, table 3.1: not authorized. */
const NOT_AUTHORIZED = { code: 5 };
/** Until a device that is connected has ended. */
const ENDS_IN_MS = 3_000;

let fixture: ProviderFixture;
let tenant: TestTenant;
let mongo: TestMongo;
beforeAll(async () => {
  fixture = await openProvidersOf(await useKillableStack());
  tenant = await fixture.tenant();
  mongo = await openMongo(fixture.stack.dev);
});
afterAll(async () => {
  await mongo?.close();
  await fixture?.close();
});

async function register(fields: object): Promise<ProviderDevice> {
  const address = randomBytes(32).toString('hex');
  const apple = { pushToken: address, pushEnvironment: 'development', pushBundle: BUNDLE };
  const body = { appId: tenant.app, platform: 'ios', ...apple, ...fields };
  const { status, json, text } = await tenant.api<Credentials>('POST', '/register', body);
  if (status !== 200) throw new Error(`register: ${text}`);
  return { ...json, address };
}

const registerActivity = () => register({ pushKind: 'liveactivity', expires_in: DAY });

/** A state of a Live Activity, as a backend sends it. */
const stateOf = (event: 'start' | 'update' | 'end', score: number) => ({
  collapse_key: 'match',
  apns: { payload: { aps: { event, 'content-state': { score } } } },
});

/** Sends updates, some at once, and kills each worker once. Returns the updates, and what waits for the killed workers. */
async function sendUpdates({ token }: ProviderDevice) {
  const sent: Sent[] = [];
  let begun = 0;
  const sendNext = async () => {
    while (begun < UPDATES) {
      begun += 1;
      sent.push(await send(tenant, token, stateOf('update', begun)));
    }
  };
  const sending = Promise.all(Array.from({ length: AT_ONCE }, sendNext));
  const restarts: Promise<number>[] = [];
  for (const [index, count] of KILLED_AFTER.entries()) {
    await until(() => sent.length >= count, { everyMs: 2, what: `${count} accepted updates` });
    const pid = fixture.stack.kill(WORKER, 'SIGKILL', index);
    restarts.push(fixture.stack.waitForRestart(WORKER, pid, index));
  }
  await sending;
  return { sent, untilRestarted: () => Promise.all(restarts) };
}

/** Waits until each push has ended. Returns how each did. */
function untilAllEnded(pushes: readonly Sent[]): Promise<string[]> {
  const readAll = async () => {
    const reads = pushes.map(({ id }) => fixture.store.deliveryStatus.statusOfPush(id));
    const outcomes = (await Promise.all(reads)).map((one) => Object.keys(one?.outcomes ?? {}));
    return !outcomes.flat().includes('pending') && outcomes.flat();
  };
  const options = { timeoutMs: 90_000, everyMs: 500, what: `the ends of ${pushes.length} pushes` };
  return until(readAll, options);
}

async function acceptedFor({ address }: ProviderDevice) {
  const received = await fixture.sandbox.receivedOver('apns', address);
  return received.filter(({ status }) => status === 200);
}

/** Sets a device's end, exactly. */
async function setEnd({ token }: Credentials, ms: number): Promise<void> {
  const devices = mongo.db.collection<DeviceDocument>('devices');
  await devices.updateOne({ _id: token }, { $set: { expiresAt: new Date(ms) } });
}

const deviceInfo = async ({ token }: Credentials) => {
  const { status, json } = await tenant.api('GET', `/devices/${token}`);
  return { status, json };
};
const pushTo = async ({ token }: Credentials) => {
  const { status, json } = await tenant.api('POST', '/push', { to: token, data: {} });
  return { status, json };
};

test.each(PUSH_KINDS)('a push to a token of the kind %s has its type and topic', async (kind) => {
  const device = await register({ pushKind: kind });
  const push = await send(tenant, device.token, { notification: { body: 'Hello' } });
  expect(await untilFinal(fixture.store, push, device.token)).toEqual({ outcome: 'sent' });
  expect(await acceptedFor(device)).toMatchObject([
    { headers: { 'apns-push-type': kind, 'apns-topic': BUNDLE + TOPIC_SUFFIXES[kind] } },
  ]);
});

test('a Live Activity of 1,000 updates, while workers are killed, ends in its last state', async () => {
  const activity = await registerActivity();
  const start = await send(tenant, activity.token, stateOf('start', 0));
  expect(await untilFinal(fixture.store, start, activity.token)).toEqual({ outcome: 'sent' });
  const { sent: updates, untilRestarted } = await sendUpdates(activity);
  const end = await send(tenant, activity.token, stateOf('end', UPDATES + 1));
  await untilRestarted();
  const ends = await untilAllEnded([start, ...updates, end]);
  expect(ends).toHaveLength(UPDATES + 2);
  expect(ends.filter((one) => one !== 'sent' && one !== 'superseded')).toEqual([]);
  expect(ends.at(-1)).toBe('sent');
  const accepted = await acceptedFor(activity);
  const aps = { event: 'end', 'content-state': { score: UPDATES + 1 } };
  expect(accepted.at(-1)).toMatchObject({ push: end.id, payload: { aps } });
  expect(accepted.filter(({ push }) => push === end.id)).toHaveLength(1);
  expect(accepted.length).toBeGreaterThan(2);
}, 180_000);

test('an activity that has ended gets nothing more, and is deleted as by a request', async () => {
  const [activity, deleted, other] = [
    await registerActivity(),
    await registerActivity(),
    await registerActivity(),
  ];
  const env = { CARILLON_API: tenant.dev.api, CARILLON_API_KEY: tenant.dev.apiKey };
  const shown = await runCarillonHere(fixture.stack.home, ['device', 'show', other.token], env);
  expect(shown.stdout).toMatch(/\nKind of its token: liveactivity\.\nEnds .+\.\n/);
  await tenant.api('POST', '/topics/subscribe', { token: activity.token, topics: ['match'] });
  await whileFrozen(fixture.stack, bothOf('scheduler'), async () => {
    await setEnd(activity, fixture.store.clock.now() - 1);
    const push = await send(tenant, [activity.token, other.token]);
    expect(await untilFinal(fixture.store, push, activity.token)).toEqual({ outcome: 'gone' });
    expect(await untilFinal(fixture.store, push, other.token)).toEqual({ outcome: 'sent' });
  });
  await until(async () => (await deviceInfo(activity)).status !== 200, { what: 'its deletion' });
  await tenant.api('DELETE', `/devices/${deleted.token}`);
  expect(await deviceInfo(activity)).toEqual(await deviceInfo(deleted));
  expect(await pushTo(activity)).toEqual(await pushTo(deleted));
  expect(await acceptedFor(activity)).toEqual([]);
  const hasNoSubscriber = async () =>
    (await tenant.api('GET', '/topics/match')).text === '{"subscribers":[]}';
  await until(hasNoSubscriber, { what: 'the end of its subscription' });
});

test('an iPhone that has ended gets nothing over its connection, and is not connected again', async () => {
  const iphone = await register({ expires_in: DAY });
  const mqtt = createMqttDevice({ url: tenant.dev.mqtt, ...iphone });
  await mqtt.connect();
  const hasArrived = async () => {
    await untilFinal(fixture.store, await send(tenant, iphone.token), iphone.token);
    return mqtt.arrivals.length > 0;
  };
  // Workers know by then that the app has such devices.
  await until(hasArrived, { timeoutMs: 60_000, everyMs: 250 });
  await whileFrozen(fixture.stack, bothOf('scheduler'), async () => {
    const end = fixture.store.clock.now() + ENDS_IN_MS;
    await setEnd(iphone, end);
    await mqtt.connect();
    const isOnline = async () => (await getDeviceInfo(tenant, iphone.token)).presence.online;
    await until(isOnline, { what: 'its presence' });
    await until(() => fixture.store.clock.now() > end, { what: 'its end' });
    const before = mqtt.arrivals.length;
    const push = await send(tenant, iphone.token);
    expect(await untilFinal(fixture.store, push, iphone.token)).toEqual({ outcome: 'gone' });
    expect(mqtt.arrivals.slice(before)).toEqual([]);
    await expect(mqtt.connect()).rejects.toMatchObject(NOT_AUTHORIZED);
  });
  await mqtt.disconnect();
});
