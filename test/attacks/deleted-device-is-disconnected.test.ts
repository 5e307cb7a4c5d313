import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { createTestTenant } from '../support/api/tenants.ts';
import { runCarillonHere } from '../support/carillon.ts';
import { sendPush, untilOutcomes } from '../support/faults/pushes.ts';
import { createFleet } from '../support/guarantees/devices.ts';
import { whileFrozen } from '../support/guarantees/while-frozen.ts';
import { expectWithin } from '../support/lag.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { createMqttDevice, type MqttDevice } from '../support/mqtt-device.ts';
import { useKillableStack } from '../support/shared-stack.ts';
import type { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

/** MQTT 3.1.1, table 3.1: not authorized. */
const NOT_AUTHORIZED = { code: 5 };
const KEEPALIVE_SECONDS = 5;
const CLOSED_WITHIN_MS = 1_000;

let stack: Stack;
let mongo: TestMongo;
const fleet = createFleet(() => stack.dev);
beforeAll(async () => {
  stack = await useKillableStack({ restartsApis: true });
  mongo = await openMongo(stack.dev);
});
afterEach(() => fleet.disconnectAll());
afterAll(async () => {
  await mongo?.close();
  await stack?.stop();
});

async function remove({ token }: Pick<MqttDevice, 'token'>): Promise<void> {
  const { status, text } = await stack.api('DELETE', `/devices/${token}`);
  expect({ status, text }).toEqual({ status: 200, text: '{"success":true}' });
}

test('a connected device is disconnected before its next PINGREQ, and refused from then on', async () => {
  const device = await fleet.online();
  const other = await fleet.online();
  await remove(device);
  const isClosed = () => !device.connected;
  await expectWithin(CLOSED_WITHIN_MS, until(isClosed, { what: 'the end of its connection' }));
  await expect(device.connect()).rejects.toMatchObject(NOT_AUTHORIZED);
  const { json } = await stack.api('GET', `/devices/${device.token}`);
  expect(json).toMatchObject({ code: 'INVALID_DEVICE_TOKEN' });
  await sendPush(stack, other.token);
  await other.waitFor(1);
});

test('its subscriptions and its inbox are removed, and pending pushes end as gone', async () => {
  const device = await fleet.offline();
  const other = await fleet.offline();
  const topic = randomUUID();
  for (const { token } of [device, other]) {
    await stack.api('POST', '/topics/subscribe', { token, topics: [topic] });
  }
  const push = await sendPush(stack, `/topics/${topic}`);
  await untilOutcomes(mongo, push, { inbox: 2 });
  await remove(device);
  await untilOutcomes(mongo, push, { inbox: 1, gone: 1 });
  const { json } = await stack.api<{ subscribers: string[] }>('GET', `/topics/${topic}`);
  expect(json.subscribers).toEqual([other.token]);
});

test('a push that is processed while its device is deleted leaves no row', async () => {
  const device = await fleet.offline();
  const workers = [0, 1].map((index) => ({ service: 'delivery-worker', index }));
  const push = await whileFrozen(stack, workers, async () => {
    const sent = await sendPush(stack, device.token);
    await remove(device);
    return sent;
  });
  await untilOutcomes(mongo, push, { gone: 1 });
});

test('another app can not delete it, and its response is that of an absent device', async () => {
  const device = await fleet.online();
  const tenant = await createTestTenant(stack, { limit: null });
  const foreign = await tenant.api('DELETE', `/devices/${device.token}`);
  const absent = await tenant.api('DELETE', `/devices/${'f'.repeat(22)}`);
  expect(foreign.json).toMatchObject({ code: 'INVALID_DEVICE_TOKEN' });
  expect(foreign.text).toBe(absent.text);
  await sendPush(stack, device.token);
  await device.waitFor(1);
});

test('the command line deletes it too', async () => {
  const device = await fleet.online();
  const env = { CARILLON_API: stack.dev.api, CARILLON_API_KEY: stack.dev.apiKey };
  const args = ['--json', 'device', 'delete', device.token];
  const { stdout } = await runCarillonHere(stack.home, args, env);
  expect(JSON.parse(stdout)).toEqual({ success: true });
  await until(() => !device.connected);
});

test('while Redis is unavailable it is disconnected at its next PINGREQ', async () => {
  const { token, auth } = await fleet.offline();
  const url = stack.dev.mqtt;
  const device = createMqttDevice({ url, token, auth, keepaliveSeconds: KEEPALIVE_SECONDS });
  await device.connect();
  await whileFrozen(stack, [{ service: 'redis' }], async () => {
    await remove(device);
    const closed = until(() => !device.connected);
    await expectWithin(3 * KEEPALIVE_SECONDS * 1_000, closed);
  });
  await expect(device.connect()).rejects.toMatchObject(NOT_AUTHORIZED);
});

test('while MongoDB is unavailable it may connect, and is disconnected when MongoDB is back', async () => {
  const device = await fleet.offline();
  await remove(device);
  await whileFrozen(stack, [{ service: 'mongodb' }], () => device.connect());
  await until(() => !device.connected);
  await expect(device.connect()).rejects.toMatchObject(NOT_AUTHORIZED);
});
