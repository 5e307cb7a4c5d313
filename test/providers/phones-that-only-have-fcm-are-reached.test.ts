import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { providerWindowOf } from '../../packages/core/src/channels.ts';
import type { TestTenant } from '../support/api/tenants.ts';
import { runCarillonJson } from '../support/carillon.ts';
import {
  getDeviceInfo,
  getPushStatus,
  type Sent,
  send,
  untilInbox,
  untilPending,
} from '../support/end-to-end/pushes.ts';
import { openMongo } from '../support/mongo.ts';
import { createMqttDevice, type MqttDevice } from '../support/mqtt-device.ts';
import {
  type ProviderDevice,
  registerAndroid,
  registerAndroidByFcm,
} from '../support/providers/devices.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import { untilFinal, untilOutcomeCounts } from '../support/providers/outcomes.ts';
import {
  type ProviderDevicePool,
  registerAndroids,
  subscribePhones,
} from '../support/providers/provider-device-pool.ts';
import { createTemporaryFolder } from '../support/temporary-folder.ts';
import { until } from '../support/until.ts';

const WORKER = 'delivery-worker';
/** More than the inbox of a device holds. */
const PUSHES = 1_300;
const PHONES = 3_000;
const CONNECTED = 5;
const OFFLINE = 200;
/** Requests to send in flight. */
const AT_ONCE = 20;
/** Longer than any of these tests: FCM gets nothing as the fallback. */
const NO_FALLBACK = { fcm: 3_600 };
/** Pushes to a phone that changes its way, and after how many of them what happens: the next ones are sent afterwards. */
const MIXED = { pushes: 500, firstKill: 50, connect: 80, secondKill: 300, again: 380 };

let fixture: ProviderFixture;
beforeAll(async () => {
  fixture = await openProviderFixture({ deliveryWorkers: 2 });
});
afterEach(() => fixture?.sandbox.reset());
afterAll(() => fixture?.close());

/** Imports phones from a list of FCM tokens, as an operator does. */
async function importPhones({ app }: TestTenant, n: number): Promise<ProviderDevicePool> {
  const list = Array.from({ length: n }, () => `fcm-${randomBytes(20).toString('hex')}`);
  const file = join(createTemporaryFolder(), 'tokens.csv');
  writeFileSync(file, `token\n${list.join('\n')}\n`);
  const args = ['import', file, '--app', app, '--source', 'fcm'];
  expect(await runCarillonJson(fixture.stack.home, ...args)).toMatchObject({ imported: n });
  const devices = await fixture.store.devices.list(app, '', n);
  return {
    tokens: devices.map(({ _id }) => _id),
    addresses: devices.map(({ provider }) => provider?.address ?? ''),
  };
}

/** Sends pushes to a device, some at once. Each is in `sent` as soon as it is accepted. */
async function sendMany(tenant: TestTenant, token: string, n: number, sent: Sent[] = []) {
  let begun = 0;
  const sendNext = async () => {
    while (begun < n) {
      begun += 1;
      sent.push(await send(tenant, token));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, sendNext));
  return sent;
}

/** Waits until none of the pushes, which are to one device each, is pending. Returns the state and the outcome of each. */
async function untilAllEnded(pushes: readonly Sent[]): Promise<string[]> {
  const readAll = async () => {
    const reads = pushes.map(({ id }) => fixture.store.deliveryStatus.statusOfPush(id));
    const statuses = await Promise.all(reads);
    const texts = statuses.map((one) => `${one?.state} ${Object.keys(one?.outcomes ?? {}).join()}`);
    return !texts.some((text) => /pending|inbox/.test(text)) && texts;
  };
  const options = { timeoutMs: 90_000, everyMs: 500, what: `the ends of ${pushes.length} pushes` };
  return until(readAll, options);
}

/** Counts the requests of each push that FCM has accepted for a phone, by push id. */
async function countAtFcm({ address }: Pick<ProviderDevice, 'address'>) {
  const received = await fixture.sandbox.receivedOver('fcm', address);
  const accepted = received.filter(({ status }) => status === 200);
  return new Map(
    [...Map.groupBy(accepted, ({ push }) => push)].map(([id, all]) => [id, all.length]),
  );
}

/** Counts the arrivals of each push over MQTT, by payload. */
function countOverMqtt({ arrivals }: Pick<MqttDevice, 'arrivals'>): Map<string, number> {
  const groups = Map.groupBy(arrivals, ({ payload }) => payload);
  return new Map([...groups].map(([payload, all]) => [payload, all.length]));
}

/** Lists the inbox rows of a push. */
async function listRows({ id }: Sent): Promise<string[]> {
  const mongo = await openMongo(fixture.stack.dev);
  const rows = await mongo.db.collection<{ _id: string }>('inbox').find({ push: id }).toArray();
  await mongo.close();
  return rows.map(({ _id }) => _id).sort();
}

const wayOf = async (tenant: TestTenant, { token }: Pick<ProviderDevice, 'token'>) =>
  (await getDeviceInfo(tenant, token)).device.way;

test('an imported phone gets each of 1,300 pushes over FCM, and nothing waits for a connection', async () => {
  const { stack, sandbox, store } = fixture;
  const tenant = await fixture.tenant();
  const { tokens, addresses } = await importPhones(tenant, 1);
  const [token = '', address = ''] = [tokens[0], addresses[0]];
  await runCarillonJson(stack.home, 'app', 'set', tenant.app, '--fcm-fallback', '0');
  const pushes = await sendMany(tenant, token, PUSHES);
  expect(new Set(await untilAllEnded(pushes))).toEqual(new Set(['finished sent']));
  expect((await sandbox.receivedOver('fcm', address)).length).toBe(PUSHES);
  const atFcm = await countAtFcm({ address });
  expect(pushes.filter(({ id }) => atFcm.get(id) !== 1)).toEqual([]);
  expect(await store.inbox.count(token)).toBe(0);
  expect((await getDeviceInfo(tenant, token)).pending_notifications).toEqual([]);
  for (const { id } of [...pushes.slice(0, 1), ...pushes.slice(-1)])
    expect((await getPushStatus(tenant, id)).pending_devices).toEqual([]);
}, 180_000);

test('while its app does not use FCM, the pushes wait in the inbox; those sent afterwards are at FCM', async () => {
  const { stack, sandbox } = fixture;
  const tenant = await fixture.tenant();
  const phone = await registerAndroidByFcm(tenant.dev);
  expect(await wayOf(tenant, phone)).toBe('mqtt');
  const pushes = [await send(tenant, phone.token), await send(tenant, phone.token)];
  const ids = pushes.map(({ id }) => id);
  await untilInbox(tenant, phone.token, ids);
  for (const id of ids) await untilPending(tenant, id, [phone.token]);
  await runCarillonJson(stack.home, 'app', 'set', tenant.app, '--fcm-fallback', '3600');
  // The workers and the API know it some seconds later.
  const later: string[] = [];
  const findAtFcm = async () => {
    later.push((await send(tenant, phone.token)).id);
    const atFcm = await countAtFcm(phone);
    return later.find((id) => atFcm.has(id));
  };
  const sent = await until(findAtFcm, { everyMs: 1_000, what: 'a push at FCM' });
  await untilPending(tenant, sent, []);
  await until(async () => (await wayOf(tenant, phone)) === 'fcm', { what: 'the way' });
  const received = await sandbox.receivedOver('fcm', phone.address);
  expect(received.filter(({ push }) => ids.includes(push ?? ''))).toEqual([]);
});

test('of the Android subscribers of a topic, each gets the push in its own way, and the counts add up', async () => {
  const { sandbox, store } = fixture;
  const tenant = await fixture.tenant(NO_FALLBACK);
  const phones = await importPhones(tenant, PHONES);
  const offline = await registerAndroids(tenant, OFFLINE);
  const connected: MqttDevice[] = [];
  for (let n = 0; n < CONNECTED; n += 1)
    connected.push(
      createMqttDevice({ url: tenant.dev.mqtt, ...(await registerAndroid(tenant.dev)) }),
    );
  await Promise.all(connected.map((device) => device.connect()));
  const tokens = [...phones.tokens, ...offline.tokens, ...connected.map(({ token }) => token)];
  await subscribePhones(tenant, 'all', tokens, 'android');

  const push = await send(tenant, '/topics/all');
  expect(push.info.devices).toBe(tokens.length);
  const counts = { sent: PHONES, delivered: CONNECTED, inbox: OFFLINE };
  await untilOutcomeCounts(store, push, counts);
  const received = (await sandbox.received(push.id)).map(({ to }) => to);
  expect(received.sort()).toEqual(phones.addresses.toSorted());
  for (const { arrivals } of connected)
    expect(arrivals.map(({ payload }) => payload)).toEqual([push.payload]);
  expect(await listRows(push)).toEqual(offline.tokens.map((token) => `${token}:${push.id}`).sort());
  const { json } = await tenant.api('GET', `/pushes/${push.id}/outcomes`);
  expect(json).toMatchObject({
    ...{ recipients: tokens.length, resolved: true },
    channels: { fcm: { sent: PHONES }, mqtt: { delivered: CONNECTED, pending: OFFLINE } },
  });
  await Promise.all(connected.map((device) => device.disconnect()));
}, 120_000);

test('its first CONNECT makes a phone an MQTT device, with FCM as its fallback', async () => {
  const { sandbox, store } = fixture;
  // Longer than the wait for a late receipt.
  const tenant = await fixture.tenant({ fcm: 5 });
  const phone = await registerAndroidByFcm(tenant.dev);
  expect(await wayOf(tenant, phone)).toBe('fcm');
  const before = await send(tenant, phone.token);
  expect(await untilFinal(store, before, phone.token)).toEqual({ outcome: 'sent' });

  const device = createMqttDevice({ url: tenant.dev.mqtt, ...phone });
  await device.connect();
  expect(await wayOf(tenant, phone)).toBe('mqtt');
  const online = await send(tenant, phone.token);
  expect((await device.waitFor(1)).map(({ payload }) => payload)).toEqual([online.payload]);
  await untilOutcomeCounts(store, online, { delivered: 1 });

  await device.disconnect();
  const offline = await send(tenant, phone.token);
  await untilInbox(tenant, phone.token, [offline.id]);
  await until(async () => (await countAtFcm(phone)).has(offline.id), { what: 'the fallback' });
  const atFcm = (await sandbox.receivedOver('fcm', phone.address)).map(({ push }) => push);
  expect(atFcm).toEqual([before.id, offline.id]);
  await device.connect();
  await device.waitFor(2);
  await untilOutcomeCounts(store, offline, { delivered: 1 });
  expect(device.arrivals.map(({ payload }) => payload)).toEqual([online.payload, offline.payload]);
  await device.disconnect();
});

test('of 500 pushes to a phone that connects in the middle and registers again later, while workers are killed, each arrives, few of them twice', async () => {
  const { stack, sandbox, store } = fixture;
  const tenant = await fixture.tenant(NO_FALLBACK);
  const phone = await registerAndroidByFcm(tenant.dev);
  const device = createMqttDevice({ url: tenant.dev.mqtt, ...phone });
  await sandbox.setFaults('fcm', { delayMs: 300 });
  const pushes: Sent[] = [];
  const untilAccepted = (n: number) =>
    until(() => pushes.length >= n, { everyMs: 2, what: `${n} accepted pushes` });
  const sendUpTo = (n: number) => sendMany(tenant, phone.token, n - pushes.length, pushes);
  const untilConnect = sendUpTo(MIXED.connect);
  await untilAccepted(MIXED.firstKill);
  const first = stack.kill(WORKER, 'SIGKILL', 0);
  await untilConnect;
  await device.connect();
  const untilAgain = sendUpTo(MIXED.again);
  await untilAccepted(MIXED.secondKill);
  // Else none may be delivered over MQTT: soon the token is that of a former device.
  const [{ payload } = { payload: '' }] = await device.waitFor(1);
  const arrived = await until(() => pushes.find((push) => push.payload === payload));
  await untilOutcomeCounts(store, arrived, { delivered: 1 });
  const second = stack.kill(WORKER, 'SIGKILL', 1);
  await untilAgain;
  const rest = sendUpTo(MIXED.pushes);
  // The backend goes on with the old token, which is that of a former device now.
  const again = await registerAndroidByFcm(tenant.dev, phone.address);
  expect(again.token).not.toBe(phone.token);
  await rest;
  await stack.waitForRestart(WORKER, first, 0);
  await stack.waitForRestart(WORKER, second, 1);
  const ends = await untilAllEnded(pushes);

  const [atFcm, overMqtt] = [await countAtFcm(phone), countOverMqtt(device)];
  const arrivals = pushes.map(({ id, payload }, n) => ({
    ...{ end: ends[n] ?? '', fcm: atFcm.get(id) ?? 0, mqtt: overMqtt.get(payload) ?? 0 },
  }));
  const isRight = ({ end, fcm, mqtt }: (typeof arrivals)[number]) =>
    [1, 2].includes(fcm + mqtt) && (end.endsWith('delivered') ? mqtt : fcm) > 0;
  expect(arrivals.filter((one) => !isRight(one))).toEqual([]);
  const wayOfPush = ({ fcm, mqtt }: (typeof arrivals)[number]) =>
    mqtt === 0 ? 'fcm' : fcm === 0 ? 'mqtt' : 'both';
  const ways = Map.groupBy(arrivals, wayOfPush);
  expect([wayOfPush(arrivals[0] as (typeof arrivals)[number]), ways.has('mqtt')]).toEqual([
    'fcm',
    true,
  ]);
  expect(wayOfPush(arrivals.at(-1) as (typeof arrivals)[number])).toBe('fcm');
  const repeated = arrivals.filter(({ fcm, mqtt }) => fcm + mqtt > 1).length;
  const counts = [...ways].map(([way, all]) => [way, all.length]);
  process.stdout.write(`${JSON.stringify({ ...Object.fromEntries(counts), repeated })}\n`);
  expect(repeated).toBeLessThanOrEqual(providerWindowOf('fcm'));
  await device.disconnect();
}, 180_000);
