import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createTestTenant } from '../support/api/tenants.ts';
import {
  getDeviceInfo,
  getOutcomes,
  type Sent,
  send,
  untilInbox,
  untilOutcome,
  untilPending,
} from '../support/end-to-end/pushes.ts';
import { untilOutcomes } from '../support/faults/pushes.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';
import { until } from '../support/until.ts';

const REGISTERED_AT_ONCE = 20;

let stack: SharedStack;
let mongo: TestMongo;
const devices: MqttDevice[] = [];
beforeAll(async () => {
  stack = await useSharedStack();
  mongo = await openMongo(stack.dev);
});
afterAll(async () => {
  await mongo?.close();
  await Promise.all(devices.map((device) => device.disconnect()));
});

describe('a push to a connected device', () => {
  test('is received, acknowledged and then pending nowhere', async () => {
    const device = await connectedDevice();
    const push = await send(stack, device.token);
    expect(push.info).toMatchObject({ devices: 1 });
    expect(await device.waitFor(1)).toMatchObject([{ payload: push.payload, dup: false }]);
    await untilPending(stack, push.id, []);
    await untilOutcome(stack, push.id, [device.token], 'delivered');
    expect((await getDeviceInfo(stack, device.token)).pending_notifications).toEqual([]);
    // Tracing is off by default.
    const pushes = mongo.db.collection<{ _id: string }>('pushes');
    expect(await pushes.findOne({ _id: push.id })).not.toHaveProperty('trace');
  });

  test('stays pending until the receipt, however late, and is not sent again', async () => {
    const device = await connectedDevice();
    device.holdReceipts();
    const push = await send(stack, device.token);
    await device.waitFor(1);
    await untilInbox(stack, device.token, [push.id]);
    await untilPending(stack, push.id, [device.token]);
    device.releaseReceipts();
    await untilPending(stack, push.id, []);
    await untilOutcome(stack, push.id, [device.token], 'delivered');
    await expectNothingMore(device, 1);
  });

  test('reaches it once, in whichever field its token is given', async () => {
    const device = await connectedDevice();
    const { token } = device;
    const push = await send(stack, [token, token], { tokens: [token], registration_ids: [token] });
    expect(push.info.devices).toBe(1);
    await expectNothingMore(device, 1);
  });
});

describe('a push to an offline device', () => {
  test('waits, is listed, and arrives at the next connect, once', async () => {
    const device = await newDevice();
    const push = await send(stack, device.token);
    await untilPending(stack, push.id, [device.token]);
    await untilInbox(stack, device.token, [push.id]);
    expect(await getDeviceInfo(stack, device.token)).toMatchObject({
      presence: { online: false },
      pending_notifications: [{ id: push.id, payload: JSON.parse(push.payload) }],
    });
    await device.connect();
    expect(await device.waitFor(1)).toMatchObject([{ payload: push.payload, dup: false }]);
    await untilPending(stack, push.id, []);
    await untilInbox(stack, device.token, []);
    await untilOutcome(stack, push.id, [device.token], 'delivered');
    await device.disconnect();
    await device.connect();
    await expectNothingMore(device, 1);
  });

  test('keeps its position: many arrive in the order they were sent', async () => {
    const device = await newDevice();
    const sent: Sent[] = [];
    for (let n = 0; n < 40; n += 1) sent.push(await send(stack, device.token));
    // A pending push may not be in the inbox yet, which has an order only once it is there (guarantee G5).
    for (const push of sent) await untilOutcomes(mongo, push, { inbox: 1 });
    expect((await getDeviceInfo(stack, device.token)).pending_notifications).toHaveLength(40);
    await device.connect();
    const arrivals = await device.waitFor(40);
    expect(arrivals.map(({ payload }) => payload)).toEqual(sent.map(({ payload }) => payload));
    await expectNothingMore(device, 40);
  });
});

test('a push to 1,000 tokens names exactly the unknown ones and reaches all others', async () => {
  const known = await newDevices(700);
  const connected = known.slice(0, 20);
  const offline = known.slice(20);
  await Promise.all(connected.map((device) => device.connect()));
  const { token: foreign } = await newMqttDevice((await createTestTenant(stack)).dev);
  const unknown = [foreign, ...unknownTokens(299)];
  const tokens = [
    ...unknown.slice(150),
    ...known.map(({ token }) => token),
    ...unknown.slice(0, 150),
  ];
  const push = await send(stack, tokens);
  expect(push.info.devices).toBe(700);
  expect([...(push.info.failed ?? [])].sort()).toEqual([...unknown].sort());
  await Promise.all(connected.map((device) => device.waitFor(1)));
  await untilPending(
    stack,
    push.id,
    offline.map(({ token }) => token),
  );
  const late = offline.slice(0, 30);
  await Promise.all(late.map((device) => device.connect()));
  await Promise.all(late.map((device) => device.waitFor(1)));
  await until(async () => (await getOutcomes(stack, push.id)).delivered === 50);
  expect(await getOutcomes(stack, push.id)).toEqual({ delivered: 50, inbox: 650 });
  for (const { arrivals } of [...connected, ...late]) expect(arrivals).toHaveLength(1);
});

describe('the logs', () => {
  type Line = Record<string, unknown>;
  const PROCESSES = [0, 1];

  const linesOf = (service: string, indexes = PROCESSES): Line[] =>
    indexes
      // The last line may be written half.
      .flatMap((index) => stack.readLog(service, index).split('\n').slice(0, -1))
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line) as Line);
  const untilLine = (service: string, fields: Line) =>
    until(() =>
      linesOf(service).find((line) =>
        Object.entries(fields).every(([name, value]) => line[name] === value),
      ),
    );

  test('trace a push by its id, from the request to the outcomes', async () => {
    const [offline, other] = [await newDevice(), await newDevice()];
    const { id } = await send(stack, [offline.token, other.token]);
    const ofRequest = await untilLine('api', { push: id });
    expect(ofRequest).toMatchObject({ route: 'POST /push', status: 200 });
    const ofBatch = await untilLine('delivery-worker', { push: id, end: 'settled' });
    expect(ofBatch).toMatchObject({ n: 2, outcomes: { inbox: 2 } });
  });

  test('name the parameter of a refused request and not its value', async () => {
    const body = { to: 'x', data: {}, notification: { badge: 'canary-value' } };
    await stack.api('POST', '/push', body);
    const line = await untilLine('api', { param: 'notification.badge', app: stack.dev.app });
    expect(line).toMatchObject({ status: 400, code: 'INVALID_PARAM' });
    for (const index of PROCESSES)
      expect(stack.readLog('api', index)).not.toContain('canary-value');
  });

  test.each(['api', 'delivery-worker', 'scheduler', 'device-gateway'])(
    'of %s have times in ISO 8601',
    (service) => {
      const times = linesOf(service, [0]).map(({ time }) => time);
      expect(times.length).toBeGreaterThan(0);
      for (const time of times) expect(time).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    },
  );
});

async function newDevice(): Promise<MqttDevice> {
  const device = await newMqttDevice(stack.dev);
  devices.push(device);
  return device;
}

/** A few at a time, as they would come. */
async function newDevices(count: number): Promise<MqttDevice[]> {
  const some = async () => {
    for (let n = 0; n < count / REGISTERED_AT_ONCE; n += 1) await newDevice();
  };
  const before = devices.length;
  await Promise.all(Array.from({ length: REGISTERED_AT_ONCE }, some));
  return devices.slice(before);
}

async function connectedDevice(): Promise<MqttDevice> {
  const device = await newDevice();
  await device.connect();
  return device;
}

/** Sends one more push, and shows that it is the only one that still comes. */
async function expectNothingMore(device: MqttDevice, sofar: number): Promise<void> {
  // Two pushes at once may overtake each other.
  await device.waitFor(sofar);
  const last = await send(stack, device.token);
  const arrivals = await device.waitFor(sofar + 1);
  expect(arrivals).toHaveLength(sofar + 1);
  expect(arrivals.at(-1)?.payload).toBe(last.payload);
}

/** Well-formed and not: a token's form is not specified beyond "a short string". */
function unknownTokens(count: number): string[] {
  const odd = ['', ' ', 'a:b', '$ne', '__proto__', 'ü😀', 'x'.repeat(500), 'a\n', "'", '%00'];
  const even = Array.from(
    { length: count - odd.length },
    (_, n) => `f00d${String(n).padStart(18, '0')}`,
  );
  return [...odd, ...even];
}
