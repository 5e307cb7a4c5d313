import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import type { Redis } from '../../packages/presence/src/redis.ts';
import type { TestTenant } from '../support/api/tenants.ts';
import { getDeviceInfo, getPushStatus, send } from '../support/end-to-end/pushes.ts';
import { countWritesDuring, untilNoWrites } from '../support/faults/mongo-writes.ts';
import { createRedisServer, type RedisServer } from '../support/faults/redis-server.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { createMqttDevice, type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { type ProviderDevice, registerIphone } from '../support/providers/devices.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import { untilFinal, untilOutcomeCounts } from '../support/providers/outcomes.ts';
import { openRedis } from '../support/redis.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';

const PUSHES = 30;
const MAX_TRIES = 20;
/** A push, its claim and its settlement; the rest is for what services write by the clock. */
const WRITES_PER_PUSH = 4;

let server: RedisServer;
let proxy: TcpProxy;
let redis: Redis;
let mongo: TestMongo;
let fixture: ProviderFixture;
let tenant: TestTenant;
/** APNs reaches it, and it holds an MQTT connection: local push connectivity. */
let iphone: ProviderDevice & { mqtt: MqttDevice };
beforeAll(async () => {
  server = await createRedisServer();
  await server.start();
  proxy = await startTcpProxy(server.port);
  redis = await openRedis({ redis: server.url });
  fixture = await openProviderFixture({ env: { REDIS_URL: `redis://127.0.0.1:${proxy.port}` } });
  mongo = await openMongo(fixture.stack.dev);
  tenant = await fixture.tenant();
  iphone = await connectIphone();
});
afterEach(async () => {
  expect(await mongo.db.collection('inbox').countDocuments({ _id: startsWith(iphone) })).toBe(0);
});
afterAll(async () => {
  await iphone?.mqtt.disconnect();
  await mongo?.close();
  await fixture?.close();
  redis?.disconnect();
  await proxy?.stop();
  await server?.remove();
});

/** Registers an iPhone and connects it; workers know by then that its app has such devices. */
async function connectIphone() {
  const device = await registerIphone(tenant.dev);
  const { token, auth } = device;
  const mqtt = createMqttDevice({ url: tenant.dev.mqtt, token, auth });
  await mqtt.connect();
  const hasArrived = async () => {
    await untilFinal(fixture.store, await send(tenant, token), token);
    return mqtt.arrivals.length > 0;
  };
  await until(hasArrived, { timeoutMs: 60_000, everyMs: 250 });
  return { ...device, mqtt };
}

const startsWith = ({ token }: { token: string }) => ({ $gt: token, $lt: `${token}~~` }) as never;

/** Lists what the iPhone got of a push over its connection. */
const arrivalsOf = ({ id }: { id: string }) =>
  iphone.mqtt.arrivals.filter(({ topic }) => topic === id);

/** Waits until the iPhone got a push over its connection. Returns its payload. */
async function untilArrived(push: { id: string }): Promise<string | undefined> {
  await until(() => arrivalsOf(push).length > 0, { timeoutMs: 60_000 });
  return arrivalsOf(push)[0]?.payload;
}

/** Returns the requests that APNs received for a device. */
async function requestsTo(push: { id: string }, { address }: { address: string }) {
  return (await fixture.sandbox.received(push.id)).filter(({ to }) => to === address);
}

/** Counts the lookups of devices' gateways. */
async function countLookups(): Promise<number> {
  const [, calls = '0'] = /cmdstat_mget:calls=(\d+)/.exec(await redis.info('commandstats')) ?? [];
  return Number(calls);
}

/** Waits until a push has ended. Returns how many recipients have each outcome. */
function untilFinished({ id }: { id: string }) {
  const readEnd = async () => {
    const { state, outcomes } = (await fixture.store.deliveryStatus.statusOfPush(id)) ?? {};
    return state === 'finished' && outcomes;
  };
  return until(readEnd, { timeoutMs: 60_000, what: `the end of ${id}` });
}

async function expectOutcome(push: { id: string }, token: string, outcome: string): Promise<void> {
  expect(await untilFinal(fixture.store, push, token)).toEqual({ outcome });
  expect(await untilFinished(push)).toEqual({ [outcome]: 1 });
}

/**
 * Sends until a push ends as delivered to the iPhone: on a busy machine a receipt may come after the wait for it.
 *
 * @param others the outcomes of its other recipients
 * @returns that push, and how many documents were written until its end
 */
async function untilDelivered<T extends { id: string }>(
  send: () => Promise<T>,
  others: Record<string, number> = {},
) {
  for (let tries = 0; tries < MAX_TRIES; tries += 1) {
    let push: T | undefined;
    let outcome = '';
    const { documents } = await countWritesDuring(mongo, async () => {
      push = await send();
      const counts = await untilFinished(push);
      ({ outcome } = await untilFinal(fixture.store, push, iphone.token));
      expect(counts).toEqual({ ...others, [outcome]: (others[outcome] ?? 0) + 1 });
    });
    if (push !== undefined && outcome === 'delivered') return { push, documents };
  }
  throw new Error('no push was delivered');
}

test('over its connection and over APNs, and its receipt makes the push delivered', async () => {
  const data = '{"big":12345678901234567890,"ü":1.0}';
  const body = `{"to":"${iphone.token}","data":${data}}`;
  const { push: json } = await untilDelivered(
    async () => (await tenant.api<{ id: string }>('POST', '/push', body)).json,
  );
  expect(await untilArrived(json)).toBe(`${data.slice(0, -1)},"_pushyId":"${json.id}"}`);
  expect((await requestsTo(json, iphone))[0]?.payload).toMatchObject({ _pushyId: json.id });
  expect(
    (await fixture.store.deliveryStatus.statusOfRecipient(json.id, iphone.token))?.milliseconds,
  ).toBeGreaterThan(0);
  expect((await getPushStatus(tenant, json.id)).pending_devices).toEqual([]);
  expect((await getDeviceInfo(tenant, iphone.token)).pending_notifications).toEqual([]);
});

test('a payload with an id of its own has our id instead, over both channels, also with time to live 0', async () => {
  const fields = { data: { _pushyId: 'theirs', aps: {}, n: 1 }, time_to_live: 0 };
  const { push } = await untilDelivered(() => send(tenant, iphone.token, fields));
  expect(await untilArrived(push)).toBe(`{"aps":{},"n":1,"_pushyId":"${push.id}"}`);
  expect((await requestsTo(push, iphone))[0]?.payload).toMatchObject({ _pushyId: push.id });
});

test('without a receipt it ends as sent, and a receipt after the end changes nothing', async () => {
  iphone.mqtt.holdReceipts();
  const push = await send(tenant, iphone.token);
  await untilArrived(push);
  await expectOutcome(push, iphone.token, 'sent');
  iphone.mqtt.releaseReceipts();
  await until(async () => (await fixture.store.pushes.inspect(push.id))?.work?.got !== undefined);
  await expectOutcome(push, iphone.token, 'sent');
  expect(arrivalsOf(push)).toHaveLength(1);
});

test('a late receipt makes it delivered while the push is open', async () => {
  const electron = await newMqttDevice(tenant.dev);
  iphone.mqtt.holdReceipts();
  const push = await send(tenant, [iphone.token, electron.token]);
  await untilArrived(push);
  await untilOutcomeCounts(fixture.store, push, { sent: 1, inbox: 1 });
  iphone.mqtt.releaseReceipts();
  await untilOutcomeCounts(fixture.store, push, { delivered: 1, inbox: 1 });
  await electron.connect();
  await electron.waitFor(1);
  await untilOutcomeCounts(fixture.store, push, { delivered: 2 });
  expect(await untilFinished(push)).toEqual({ delivered: 2 });
  expect(await untilFinal(fixture.store, push, iphone.token)).toEqual({ outcome: 'delivered' });
  await electron.disconnect();
});

test('a late receipt changes nothing once a push to several channels has ended', async () => {
  const electron = await newMqttDevice(tenant.dev);
  await electron.connect();
  iphone.mqtt.holdReceipts();
  const push = await send(tenant, [iphone.token, electron.token]);
  await untilArrived(push);
  await untilFinished(push);
  iphone.mqtt.releaseReceipts();
  const batches = mongo.db.collection('batches');
  const late = { push: push.id, 'work.channel': 'apns', 'work.got': { $exists: true } };
  await until(async () => (await batches.countDocuments(late)) === 1);
  const counts = { sent: 1, delivered: 1 };
  expect((await fixture.store.deliveryStatus.statusOfPush(push.id))?.outcomes).toEqual(counts);
  expect(await untilFinal(fixture.store, push, iphone.token)).toEqual({ outcome: 'sent' });
  await electron.disconnect();
});

test.each([
  // Delayed: the receipt comes before, on a busy machine too.
  ['rejects it', { as: 'BadDeviceToken', delayMs: 1_500 }],
  // It is repeated at once: the receipt is still in flight then.
  ['does not process it', { do: 'refuse-stream' }],
  ['is unavailable', { status: 503, headers: { 'retry-after': '0' }, delayMs: 1_500 }],
])('its receipt counts when APNs %s, and the push is not tried again', async (_how, response) => {
  const { push } = await untilDelivered(async () => {
    await fixture.sandbox.script('apns', iphone.address, [response]);
    return send(tenant, iphone.token);
  });
  const { push: next } = await untilDelivered(() => send(tenant, iphone.token));
  expect(await requestsTo(push, iphone)).toHaveLength(1);
  expect([arrivalsOf(push).length, arrivalsOf(next).length]).toEqual([1, 1]);
});

test('an iPhone that is not connected gets it over APNs only', async () => {
  const other = await registerIphone(tenant.dev);
  const { push } = await untilDelivered(() => send(tenant, [other.token, iphone.token]), {
    sent: 1,
  });
  expect(await untilFinal(fixture.store, push, other.token)).toEqual({ outcome: 'sent' });
  expect(await requestsTo(push, other)).toHaveLength(1);
});

test('no lookup is made for the iPhones of an app of which none has ever connected', async () => {
  const others = await fixture.tenant();
  const tokens = [await registerIphone(others.dev), await registerIphone(others.dev)];
  const before = await countLookups();
  for (const { token } of tokens) await expectOutcome(await send(others, token), token, 'sent');
  expect(await countLookups()).toBe(before);
  await untilFinal(fixture.store, await send(tenant, iphone.token), iphone.token);
  expect(await countLookups()).toBe(before + 1);
});

test('a healthy push costs no more writes than one to an app without connections', async () => {
  const others = await fixture.tenant();
  const other = await registerIphone(others.dev);
  await untilNoWrites(mongo);
  const without = await countWritesDuring(mongo, async () => {
    for (let n = 0; n < PUSHES; n += 1)
      await expectOutcome(await send(others, other.token), other.token, 'sent');
  });
  let connected = 0;
  for (let n = 0; n < PUSHES; n += 1)
    connected += (await untilDelivered(() => send(tenant, iphone.token))).documents;
  expect(without.documents / PUSHES).toBeLessThanOrEqual(WRITES_PER_PUSH);
  expect(connected / PUSHES).toBeLessThanOrEqual(WRITES_PER_PUSH);
});

test('while Redis does not respond the request to APNs is sent all the same', async () => {
  const heldReply = proxy.holdNext('\r\nmget\r\n');
  const push = await send(tenant, iphone.token);
  await heldReply.matched;
  await until(async () => (await requestsTo(push, iphone)).length === 1);
  await expectOutcome(push, iphone.token, 'sent');
  heldReply.release();
  await until(async () => {
    await expectOutcome(await send(tenant, iphone.token), iphone.token, 'delivered');
    return true;
  });
});
