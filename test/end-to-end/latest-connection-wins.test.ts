import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { getDeviceInfo, send, untilPending } from '../support/end-to-end/pushes.ts';
import { createMqttDevice, type MqttDevice } from '../support/mqtt-device.ts';
import { createLagRecord } from '../support/observer-lag.ts';
import { type Credentials, registerDevice } from '../support/register-device.ts';
import { useKillableStack } from '../support/shared-stack.ts';
import type { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const BREAKS = 5;
/** Guarantee G4. */
const DUPLICATES_A_BREAK = 16;
/** Guarantee G11: after a connect or a close, and after the crash of a gateway. */
const CHANGE_MS = 1_000;
const GATEWAY_CRASH_MS = 15_000;

let stack: Stack;
let connections: MqttDevice[];
beforeAll(async () => {
  stack = await useKillableStack();
});
afterAll(() => stack?.stop());
beforeEach(() => {
  connections = [];
});
afterEach(() => Promise.all(connections.map((connection) => connection.disconnect())));

describe('a device that connects again while its old connection is open', () => {
  test('loses the old connection, is online, and gets pushes on the new one only', async () => {
    const registered = await registerDevice(stack.dev);
    const old = await connect(registered);
    await untilOnline(registered);
    const last = await connect(registered);
    await until(() => !old.connected);
    const push = await send(stack, registered.token);
    expect((await last.waitFor(1))[0]?.payload).toBe(push.payload);
    await untilPending(stack, push.id, []);
    expect(old.arrivals).toEqual([]);
    expect(await isOnline(registered)).toBe(true);
  });

  test('gets a push that the old connection had not acknowledged', async () => {
    const registered = await registerDevice(stack.dev);
    const old = await connect(registered);
    old.holdReceipts();
    const push = await send(stack, registered.token);
    await old.waitFor(1);
    const last = await connect(registered);
    expect((await last.waitFor(1))[0]?.payload).toBe(push.payload);
    await untilPending(stack, push.id, []);
    expect(last.arrivals).toHaveLength(1);
  });

  test('keeps only its last connection of many, over all gateways', async () => {
    const registered = await registerDevice(stack.dev);
    let last = await connect(registered);
    // A gateway announces a connection beside its CONNACK, so the next one must wait for that.
    await untilOnline(registered);
    for (let n = 1; n < 12; n += 1) {
      last = await connect(registered);
      await until(() => connections.every((one) => one.connected === (one === last)));
    }
    const push = await send(stack, registered.token);
    expect((await last.waitFor(1))[0]?.payload).toBe(push.payload);
    await untilPending(stack, push.id, []);
    expect(connections.flatMap(({ arrivals }) => arrivals)).toHaveLength(1);
    expect(await isOnline(registered)).toBe(true);
  });

  test('gets every push when connections and pushes arrive at the same time', async () => {
    const registered = await registerDevice(stack.dev);
    const sent = Array.from({ length: 30 }, () => send(stack, registered.token));
    for (let n = 0; n <= BREAKS; n += 1) await connect(registered);
    const expected = (await Promise.all(sent)).map(({ payload }) => payload).sort();
    for (const { id } of await Promise.all(sent)) await untilPending(stack, id, []);
    const got = connections.flatMap(({ arrivals }) => arrivals.map(({ payload }) => payload));
    expect([...new Set(got)].sort()).toEqual(expected);
    // A push that a connection received and did not acknowledge in time comes again on the next one.
    expect(got.length - expected.length).toBeLessThanOrEqual(DUPLICATES_A_BREAK * BREAKS);
  });
});

describe('presence', () => {
  test('follows a connect and a clean close within a second', async () => {
    const registered = await registerDevice(stack.dev);
    expect(await isOnline(registered)).toBe(false);
    const device = await connect(registered);
    await untilOnline(registered);
    await device.disconnect();
    await untilOffline(registered);
  });

  test('follows a connection that is cut', async () => {
    const registered = await registerDevice(stack.dev);
    const device = await connect(registered);
    await untilOnline(registered);
    device.cut();
    await untilOffline(registered);
  });

  test('is the same in the response for many devices', async () => {
    const [one, other] = [await registerDevice(stack.dev), await registerDevice(stack.dev)];
    await connect(one);
    await untilOnline(one);
    const tokens = [one.token, other.token, 'f00d'];
    const { json } = await stack.api('POST', '/devices/presence', { tokens });
    expect(json.presence).toHaveLength(2);
    expect(json.presence).toContainEqual(expect.objectContaining({ id: one.token, online: true }));
    expect(json.presence).toContainEqual(
      expect.objectContaining({ id: other.token, online: false }),
    );
  });

  test('ends within 15 s of a crash of the gateway, and begins again with a connect', async () => {
    const registered = await registerDevice(stack.dev);
    const device = await connect(registered);
    await untilOnline(registered);
    const killed = [0, 1].map((at) => stack.kill('device-gateway', 'SIGKILL', at));
    await untilOffline(registered, GATEWAY_CRASH_MS);
    const restarts = killed.map((pid, at) => stack.waitForRestart('device-gateway', pid, at));
    await Promise.all(restarts);
    const push = await send(stack, registered.token);
    await device.connect();
    await untilOnline(registered);
    expect((await device.waitFor(1))[0]?.payload).toBe(push.payload);
  });
});

/** Another connection of the same device; the older ones stay as they are. */
async function connect(registered: Credentials): Promise<MqttDevice> {
  const connection = createMqttDevice({ url: stack.dev.mqtt, ...registered });
  connections.push(connection);
  await connection.connect();
  return connection;
}

async function isOnline({ token }: Credentials): Promise<boolean> {
  return (await getDeviceInfo(stack, token)).presence.online;
}

/** A connection is announced beside its CONNACK, not before. */
const untilOnline = (registered: Credentials) => untilPresence(registered, true, CHANGE_MS);

const untilOffline = (registered: Credentials, atMost = CHANGE_MS) =>
  untilPresence(registered, false, atMost);

async function untilPresence(registered: Credentials, online: boolean, atMost: number) {
  const [lag, since] = [createLagRecord(), performance.now()];
  await lag.during(until(async () => (await isOnline(registered)) === online));
  expect(performance.now() - since).toBeLessThan(atMost + 3 * lag.maxMs());
}
