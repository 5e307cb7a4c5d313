import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { Socket } from 'node:net';
import { createDeviceAuth } from '@carillon/core/device-auth';
import { newDeviceToken, newObjectId } from '@carillon/core/ids';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { openMongo } from '../../../test/support/mongo.ts';
import { createMqttDevice, type MqttDevice } from '../../../test/support/mqtt-device.ts';
import { until } from '../../../test/support/until.ts';
import { untilClosed } from '../../../test/support/until-closed.ts';
import { createAcceptThrottle } from '../src/accept-throttle.ts';
import {
  type AddressLimits,
  createAddressLimits,
  NO_ADDRESS_LIMITS,
} from '../src/address-limits.ts';
import { createAppShares } from '../src/app-shares.ts';
import { authenticate } from '../src/authenticate.ts';
import type { Gateway } from '../src/gateway.ts';
import { createPendingConnections } from '../src/pending-connections.ts';
import { AUTH_KEYS, type GatewayUnderTest, startGatewayUnderTest } from './gateway-under-test.ts';
import {
  ACCEPTED,
  BAD_CREDENTIALS,
  connectPacket,
  openSocket,
  sendAndRead,
  sendUntilClosed,
  UNAVAILABLE,
  WRONG_AUTH,
} from './raw-connection.ts';

const ADDRESS = '203.0.113.7';
const OTHER = '198.51.100.1';

let bench: GatewayUnderTest;
/** A new gateway for each test, so that addresses and apps start without counts. */
let gateway: Gateway;
let sockets: Socket[];
beforeAll(async () => {
  bench = await startGatewayUnderTest();
});
beforeEach(() => {
  sockets = [];
});
afterEach(() => {
  for (const socket of sockets) socket.destroy();
});
afterAll(() => bench.stop());

/** Opens a connection that stays open until the test ends. */
function open(): Socket {
  const socket = openSocket(gateway.ports.mqtt);
  sockets.push(socket);
  return socket;
}

describe('devices that share an address with a client', () => {
  beforeEach(async () => {
    gateway = await bench.startGateway();
  });

  async function openSilentConnections(count: number): Promise<Socket[]> {
    const connections = Array.from({ length: count }, () => open().resume());
    await Promise.all(connections.map((connection) => once(connection, 'connect')));
    return connections;
  }

  /** Returns the CONNACK; empty when the connection is closed without one. */
  async function readResponse(connectBytes: Buffer, socket = open().resume()): Promise<number[]> {
    return Promise.race([sendAndRead(socket, connectBytes, 4), untilClosed(socket).then(() => [])]);
  }

  const connectWithWrongAuth = () => readResponse(connectPacket(newDeviceToken(), WRONG_AUTH));

  async function expectValidDevicesConnect(times: number): Promise<void> {
    for (let n = 0; n < times; n += 1)
      expect(await readResponse(connectPacket(await bench.newToken()))).toEqual(ACCEPTED);
  }

  test('that guesses credentials connect at once, and the guesses are rejected, each later than the last', async () => {
    const startedAt = performance.now();
    const tookMs: number[] = [];
    const attempts = Array.from({ length: 200 }, async () => {
      const response = await connectWithWrongAuth();
      tookMs.push(performance.now() - startedAt);
      return response;
    });
    await until(() => tookMs.length > 9);
    const valid = connectPacket(await bench.newToken());
    expect(await Promise.race([connectWithWrongAuth(), readResponse(valid)])).toEqual(ACCEPTED);
    await until(() => tookMs.length > 30);
    expect(tookMs[30]).toBeGreaterThan(1_000);
    await expectValidDevicesConnect(5);
    const responses = new Set((await Promise.all(attempts)).map(String));
    expect(responses).toEqual(new Set([`${BAD_CREDENTIALS}`]));
  });

  test('that opens connections without CONNECT connect, and its oldest connections are evicted', async () => {
    const silentConnections = await openSilentConnections(700);
    const first = untilClosed(silentConnections[0] as Socket);
    await expectValidDevicesConnect(5);
    await first;
    const connect = connectPacket(await bench.newToken());
    expect(await readResponse(connect, silentConnections.at(-1))).toEqual(ACCEPTED);
  });

  test('that floods the gateway with wrong CONNECTs connect during the flood', async () => {
    let isStopped = false;
    async function attack(): Promise<void> {
      while (!isStopped) {
        const socket = open().resume();
        socket.write(connectPacket(newDeviceToken(), WRONG_AUTH));
        await once(socket, 'connect');
      }
    }
    const attacks = Array.from({ length: 8 }, attack);
    await until(() => sockets.length > 1_500);
    await expectValidDevicesConnect(50);
    isStopped = true;
    await Promise.all(attacks);
  });

  test('that fills the process with connections without CONNECT connect', async () => {
    gateway = await bench.startGateway({ maxConnections: 100, hasAddressLimits: false });
    await openSilentConnections(300);
    await expectValidDevicesConnect(20);
  });
});

describe('with a clock', () => {
  let now: number;
  let limits: AddressLimits;
  beforeEach(() => {
    now = 1_000_000;
    limits = createAddressLimits(() => now);
  });
  afterEach(() => limits.stop());

  test('wrong credentials are rejected at once ten times, then each 0.1 s later up to 5 s; one is forgotten in 5 s', () => {
    const record = () => limits.recordAuthFailure(ADDRESS);
    const delays = Array.from({ length: 100 }, record);
    expect(delays).toEqual(delays.map((_, n) => Math.min(Math.max(0, n - 9) * 100, 5_000)));
    expect(limits.recordAuthFailure(OTHER)).toBe(0);
    now += 20_000;
    expect([record(), record()]).toEqual([4_700, 4_800]);
    now += 300_000;
    expect(record()).toBe(0);
  });

  test('an imported device gets CONNACK 3 after too many failed lookups of its address, and is never rejected', async () => {
    const token = await bench.newToken();
    const mongo = await openMongo({ mongodb: bench.uri });
    const authDigest = createHash('sha256').update('imported-secret').digest('hex');
    const devices = mongo.db.collection<{ _id: string }>('devices');
    await devices.updateOne({ _id: token }, { $set: { authDigest } });
    await mongo.close();
    let lookups = 0;
    const findForConnect = (wanted: string) => {
      lookups += 1;
      return bench.store.devices.findForConnect(wanted);
    };
    const devicesOfGateway = { ...bench.store.devices, findForConnect };
    const context = { devices: devicesOfGateway, authKeys: AUTH_KEYS, limits };
    const connect = (who: string, password: string, address = ADDRESS) =>
      authenticate(context, connectPacket(who, { password: Buffer.from(password) }), address);
    const connectImported = (address?: string) => connect(token, 'imported-secret', address);
    for (let n = 0; n < 500; n += 1)
      expect(await connectImported()).toMatchObject({ isAuthenticated: true });
    for (let n = 0; n < 500; n += 1)
      expect(await connect(token, 'wrong')).toMatchObject({ code: n < 400 ? 4 : 3 });
    expect(lookups).toBe(500 + 400);
    expect(await connectImported()).toEqual({
      ...{ isAuthenticated: false, code: 3, isAuthFailure: true },
    });
    const signed = connectPacket(await bench.newToken());
    expect(await authenticate(context, signed, ADDRESS)).toMatchObject({ isAuthenticated: true });
    expect(await connectImported(OTHER)).toMatchObject({ isAuthenticated: true });
    now += 100;
    expect(await connectImported()).toMatchObject({ isAuthenticated: true });
  });

  test('connections without a CONNECT are evicted for others of their address when they are half a second old', () => {
    let evicted = 0;
    const onEvicted = () => {
      evicted += 1;
    };
    const pending = createPendingConnections(3, onEvicted, () => now);
    const add = () => pending.add(new Socket(), ADDRESS);
    const [oldest, authenticating, rejected] = [add(), add(), add()];
    expect(add()).toBeUndefined();
    expect(pending.add(new Socket(), OTHER)).toBeDefined();
    if (!oldest || !authenticating || !rejected) throw new Error('not added');
    pending.markAuthenticating(authenticating);
    pending.reject(rejected, 5_000, () => undefined);
    expect(add()).toBeDefined();
    expect(add()).toBeUndefined();
    now += 500;
    expect(add()).toBeDefined();
    const destroyed = [oldest, authenticating, rejected].map((one) => one.transport.destroyed);
    expect([evicted, ...destroyed]).toEqual([2, true, false, true]);
    pending.stop();
  });
});

test('a delayed rejection is sent after its delay, and none of a connection that is removed', async () => {
  const pending = createPendingConnections(3, () => undefined);
  const startedAt = performance.now();
  const sent: [string, number][] = [];
  const reject = (what: string, delayMs: number) => {
    const one = pending.add(new Socket(), ADDRESS);
    if (one === undefined) throw new Error('not added');
    pending.reject(one, delayMs, () => void sent.push([what, performance.now() - startedAt]));
    return one;
  };
  reject('late', 200);
  pending.remove(reject('removed', 100));
  reject('at once', 0);
  expect(sent.map(([what]) => what)).toEqual(['at once']);
  await until(() => sent.length > 1);
  expect(sent.map(([what]) => what)).toEqual(['at once', 'late']);
  // Node's timers round down.
  expect(sent[1]?.[1]).toBeGreaterThan(198);
  pending.stop();
});

test('without limits by address no credentials wait, and no lookup, connect or connection is refused', () => {
  const { recordAuthFailure, tryAcquireLookup, exceedsConnectionRate, allowConnect } =
    NO_ADDRESS_LIMITS;
  const isUnlimited = () =>
    recordAuthFailure(ADDRESS) === 0 &&
    tryAcquireLookup(ADDRESS) &&
    !exceedsConnectionRate(ADDRESS) &&
    allowConnect('token', true);
  expect(Array.from({ length: 10_000 }, isUnlimited)).toEqual(Array(10_000).fill(true));
});

describe('connections above the rate of their address', () => {
  const MAX_WAITING = 1_000;

  test('start when no other connection waits, and when there is capacity', async () => {
    const started: string[] = [];
    let hasCapacity = false;
    const tryStart = ({ address }: { address: string }) => hasCapacity && started.push(address) > 0;
    const throttle = createAcceptThrottle(tryStart, () => undefined);
    for (const [address, isAboveRate] of [
      [ADDRESS, true],
      [OTHER, false],
    ] as const)
      for (let n = 0; n < 20; n += 1)
        throttle.enqueue({ socket: new Socket(), address }, isAboveRate);
    hasCapacity = true;
    await until(() => started.length === 40);
    expect(started).toEqual([...Array(20).fill(OTHER), ...Array(20).fill(ADDRESS)]);
    throttle.enqueue({ socket: new Socket(), address: OTHER }, false);
    hasCapacity = false;
    await until(() => throttle.countQueued() === 1);
    hasCapacity = true;
    await until(() => throttle.countQueued() === 0);
    throttle.stop();
  });

  test('are at most 1,000: a further one closes the one that waits longest', () => {
    let evicted = 0;
    const throttle = createAcceptThrottle(
      () => false,
      () => {
        evicted += 1;
      },
    );
    const waiting = Array.from({ length: MAX_WAITING + 1 }, () => new Socket());
    for (const socket of waiting) throttle.enqueue({ socket, address: ADDRESS }, true);
    expect(throttle.countQueued()).toBe(MAX_WAITING);
    expect(evicted).toBe(1);
    expect(waiting.filter(({ destroyed }) => destroyed)).toEqual([waiting[0]]);
    throttle.stop();
  });
});

const MAX_CONNECTIONS = 20;
const greedyApp = newObjectId();
const modestApp = newObjectId();

async function connectAs(token: string): Promise<{ response: number[]; socket: Socket }> {
  const socket = open();
  return { socket, response: await sendAndRead(socket, connectPacket(token), 4) };
}

/** Connects devices of an app until one gets CONNACK 3; returns how many were accepted. */
async function connectUntilRejected(app: string, limit = 2 * MAX_CONNECTIONS): Promise<number> {
  for (let n = 0; n < limit; n += 1) {
    const { response } = await connectAs(await bench.newToken(app));
    if (response[3] === 0) continue;
    expect(response).toEqual(UNAVAILABLE);
    return n;
  }
  return limit;
}

describe('a process that is full of one app', () => {
  beforeEach(async () => {
    gateway = await bench.startGateway({ maxConnections: MAX_CONNECTIONS });
    expect(await connectUntilRejected(greedyApp)).toBe(MAX_CONNECTIONS);
  });

  test('accepts devices of another app up to its share, and evicts devices of the first', async () => {
    expect(await connectUntilRejected(modestApp)).toBe(MAX_CONNECTIONS / 2);
    expect(await connectUntilRejected(greedyApp)).toBe(0);
    await until(() => sockets.filter((one) => !one.destroyed).length <= MAX_CONNECTIONS);
  });

  test('lets a device of the first app replace its own connection', async () => {
    sockets.at(0)?.destroy();
    const token = await bench.newToken(greedyApp);
    await until(async () => (await connectAs(token)).response[3] === 0);
    expect((await connectAs(await bench.newToken(modestApp))).response).toEqual(ACCEPTED);
    expect((await connectAs(token)).response).toEqual(ACCEPTED);
    expect((await connectAs(await bench.newToken(greedyApp))).response).toEqual(UNAVAILABLE);
  });
});

test('an app above its share is rejected before the process is full, and others are accepted', async () => {
  gateway = await bench.startGateway({ maxConnections: MAX_CONNECTIONS });
  await connectUntilRejected(modestApp, 1);
  expect(await connectUntilRejected(greedyApp)).toBe(MAX_CONNECTIONS * 0.8 - 1);
  expect(await connectUntilRejected(newObjectId(), 3)).toBe(3);
  expect(
    await sendUntilClosed(gateway.ports.mqtt, connectPacket(await bench.newToken(greedyApp))),
  ).toEqual(UNAVAILABLE);
});

test('devices whose app is unknown, as while MongoDB is unavailable, are accepted until the process is full', () => {
  const shares = createAppShares(MAX_CONNECTIONS);
  let evictions = 0;
  function openOf(app: string | undefined): boolean {
    const load = shares.loadOf(app);
    const isAccepted = shares.canOpen(load, () => {
      evictions += 1;
    });
    if (isAccepted) shares.opened(load);
    return isAccepted;
  }
  expect([modestApp, modestApp].map(openOf)).toEqual([true, true]);
  const unknown = Array.from({ length: MAX_CONNECTIONS }, () => openOf(undefined));
  expect(unknown).toEqual([...Array(MAX_CONNECTIONS - 2).fill(true), false, false]);
  expect(evictions).toBe(0);
});

describe('devices that do not read', () => {
  /** Twice as much as kernels buffer for a socket that is not read: the rest is buffered in the process. */
  const LARGE_BYTES = 10_000_000;
  const LARGE = 'x'.repeat(LARGE_BYTES);
  const SMALL = '{}';
  let devices: MqttDevice[];
  let sameAppDevice: MqttDevice;
  let otherAppDevice: MqttDevice;

  beforeEach(() => {
    devices = [];
  });
  afterEach(() => Promise.all(devices.map((device) => device.disconnect())));

  /** Connects a device that reads and acknowledges. */
  async function connectReading(app: string): Promise<MqttDevice> {
    const token = await bench.newToken(app);
    const url = `mqtt://127.0.0.1:${gateway.ports.mqtt}`;
    const device = createMqttDevice({ url, token, auth: createDeviceAuth(AUTH_KEYS, token) });
    devices.push(device);
    await device.connect();
    await bench.untilAcknowledged(await bench.createPush(token, { data: SMALL }), token);
    return device;
  }

  /** Returns `not-sent` at the deadline if the app is throttled. */
  async function dispatchTo(token: string, data = SMALL, deadlineMs = 5_000) {
    return bench.dispatch(await bench.createPush(token, { data }), token, deadlineMs);
  }

  /** Connects devices that read their CONNACK and nothing after it. */
  async function connectFrozen(app: string, count: number): Promise<string[]> {
    const tokens = await Promise.all(Array.from({ length: count }, () => bench.newToken(app)));
    for (const token of tokens) (await connectAs(token)).socket.pause();
    await until(async () => (await countOnline(tokens)) === count);
    return tokens;
  }

  const countOnline = async (tokens: string[]) =>
    (await Promise.all(tokens.map(bench.isOnline))).filter(Boolean).length;

  test('throttle their own app and no other', async () => {
    // Two large pushes are above the limit, three are below twice the limit.
    const tokens = await startWithFrozen(3, 1.6 * LARGE_BYTES);
    for (const token of tokens) await dispatchTo(token, LARGE);
    await until(async () => (await dispatchTo(sameAppDevice.token)) === 'not-sent');
    for (let n = 0; n < 5; n += 1)
      expect(await dispatchTo(otherAppDevice.token, SMALL, 30_000)).toBe('acknowledged');
    expect(await countOnline(tokens)).toBe(tokens.length);
  });

  test('are closed at twice the limit, and their app is served again', async () => {
    const tokens = await startWithFrozen(2, LARGE_BYTES / 3);
    await until(async () => {
      // In sequence: the test, the gateway and the worker share this process with Redis's timeouts.
      for (const token of tokens) if (await bench.isOnline(token)) await dispatchTo(token, LARGE);
      return (await countOnline(tokens)) === 0;
    });
    // Whatever the large pushes did to Redis's connections on a busy machine, a device of a third app is served by now.
    await connectReading(newObjectId());
    expect(await dispatchTo(otherAppDevice.token, SMALL, 30_000)).toBe('acknowledged');
    await until(async () => (await dispatchTo(sameAppDevice.token)) === 'acknowledged');
  });

  async function startWithFrozen(count: number, maxWaitingBytes: number): Promise<string[]> {
    gateway = await bench.startGateway({ maxWaitingBytes });
    [sameAppDevice, otherAppDevice] = [
      await connectReading(greedyApp),
      await connectReading(modestApp),
    ];
    return connectFrozen(greedyApp, count);
  }
});
