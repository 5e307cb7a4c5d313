import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createTestTenant, type TestTenant } from '../support/api/tenants.ts';
import { runCarillonJson } from '../support/carillon.ts';
import { pushStatusOf, type SentPush, sendPush, untilOutcomes } from '../support/faults/pushes.ts';
import { payloadsOf } from '../support/guarantees/devices.ts';
import { expectWithin } from '../support/lag.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';
import { until } from '../support/until.ts';

/** From then on nothing of the account goes out, and after its end everything does. */
const KNOWN_MS = 10_000;

/** Pushes that become due while their account is suspended, and their recipients. */
interface Held {
  tenant: TestTenant;
  online: MqttDevice;
  offline: MqttDevice;
  schedule: number;
  scheduled: SentPush;
}

let stack: SharedStack;
let mongo: TestMongo;
/** A device of an account that is not suspended. */
let appDevice: MqttDevice;
let held: Held;
/** A push that expires while its account is suspended. */
let short: { tenant: TestTenant; push: SentPush };
let quiet: { tenant: TestTenant; device: MqttDevice };
/** Unix milliseconds. */
let suspendedAt: number;
// One account for each test, all suspended together: that each process knows it takes a while.
beforeAll(async () => {
  stack = await useSharedStack();
  mongo = await openMongo(stack.dev);
  appDevice = await newMqttDevice(stack.dev);
  await appDevice.connect();
  const tenant = await createTestTenant(stack, { limit: null });
  quiet = { tenant, device: await newMqttDevice(tenant.dev) };
  held = await prepareHeld();
  short = await prepareShort();
  const all = [held, short, quiet].map((one) => one.tenant.account);
  for (const account of all) await runCarillonJson(stack.home, 'account', 'suspend', account);
  suspendedAt = Date.now();
});
afterAll(async () => {
  await appDevice?.disconnect();
  await mongo?.close();
});

async function prepareHeld(): Promise<Held> {
  const tenant = await createTestTenant(stack, { limit: null });
  const [online, offline] = [await newMqttDevice(tenant.dev), await newMqttDevice(tenant.dev)];
  await online.connect();
  const waiting = await sendPush(tenant, offline.token);
  await untilOutcomes(mongo, waiting, { inbox: 1 });
  const schedule = secondsFromNow(12);
  const scheduled = await sendPush(tenant, online.token, { schedule });
  return { tenant, online, offline, schedule, scheduled };
}

async function prepareShort() {
  const tenant = await createTestTenant(stack, { limit: null });
  const { token } = await newMqttDevice(tenant.dev);
  const fields = { schedule: secondsFromNow(11), time_to_live: 2 };
  return { tenant, push: await sendPush(tenant, token, fields) };
}

/** Ends the suspension. */
async function resume({ tenant }: { tenant: TestTenant }): Promise<void> {
  await runCarillonJson(stack.home, 'account', 'resume', tenant.account);
}

/** Whatever could have been sent by now was: another account's push came. */
async function expectNoArrivals(device: MqttDevice, before = 0): Promise<void> {
  const push = await sendPush(stack, appDevice.token);
  await until(() => payloadsOf(appDevice).includes(push.payload));
  expect(payloadsOf(device)).toHaveLength(before);
}

function secondsFromNow(seconds: number): number {
  return Math.floor(Date.now() / 1_000) + seconds;
}

test('scheduled and pending pushes wait until the suspension ends', async () => {
  const { online, offline, schedule, scheduled } = held;
  const isKnown = () => Date.now() > suspendedAt + KNOWN_MS;
  const isLongDue = () => Date.now() / 1_000 > schedule + 3;
  await until(() => isKnown() && isLongDue(), { what: 'the due time' });
  await offline.connect();
  await expectNoArrivals(online);
  await expectNoArrivals(offline);
  await resume(held);
  await expectWithin(KNOWN_MS, Promise.all([online.waitFor(1), offline.waitFor(1)]));
  await untilOutcomes(mongo, scheduled, { delivered: 1 });
  await Promise.all([online.disconnect(), offline.disconnect()]);
});

test('batches in progress are not claimed again and again, and expire in time', async () => {
  const { push } = short;
  await untilOutcomes(mongo, push, { expired: 1 });
  const found = await mongo.db
    .collection<{ _id: string; work?: { tries: number } }>('pushes')
    .findOne({ _id: push.id });
  expect(found?.work?.tries).toBe(0);
  await resume(short);
  expect((await pushStatusOf(mongo, push)).outcomes).toEqual({ expired: 1 });
});

test('no device can register, and registered devices connect and pass the check of their credentials', async () => {
  const { tenant, device } = quiet;
  const { token, auth } = device;
  const register = { appId: tenant.dev.app, platform: 'electron', sdk: 10_000 };
  const refused = await until(async () => {
    const response = await tenant.api('POST', '/register', register);
    return response.status !== 200 && response;
  });
  expect({ status: refused.status, code: refused.json.code }).toEqual({
    status: 503,
    code: 'SERVICE_UNAVAILABLE',
  });
  expect((await tenant.api('POST', '/devices/auth', { token, auth })).status).toBe(200);
  await device.connect();
  expect((await stack.api('POST', '/register', { ...register, appId: stack.dev.app })).status).toBe(
    200,
  );
  await resume(quiet);
  await device.disconnect();
});
