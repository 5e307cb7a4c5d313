import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { Socket } from 'node:net';
import { newDeviceToken } from '@carillon/core/ids';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { openMongo } from '../../../test/support/mongo.ts';
import { until } from '../../../test/support/until.ts';
import { untilClosed } from '../../../test/support/until-closed.ts';
import { createAcceptThrottle } from '../src/accept-throttle.ts';
import {
  type AddressLimits,
  createAddressLimits,
  NO_ADDRESS_LIMITS,
} from '../src/address-limits.ts';
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
  WRONG_AUTH,
} from './raw-connection.ts';

const ADDRESS = '203.0.113.7';
const OTHER = '198.51.100.1';

let bench: GatewayUnderTest;
beforeAll(async () => {
  bench = await startGatewayUnderTest();
});
afterAll(() => bench.stop());

describe('devices that share an address with a client', () => {
  /** A new gateway for each test, so that the address starts without counts. */
  let gateway: Gateway;
  let sockets: Socket[];
  beforeEach(async () => {
    gateway = await bench.startGateway();
    sockets = [];
  });
  afterEach(() => {
    for (const socket of sockets) socket.destroy();
  });

  /** Opens a connection that stays open until the test ends. */
  function open(): Socket {
    const socket = openSocket(gateway.ports.mqtt);
    sockets.push(socket);
    return socket.resume();
  }

  async function openSilentConnections(count: number): Promise<Socket[]> {
    const connections = Array.from({ length: count }, open);
    await Promise.all(connections.map((connection) => once(connection, 'connect')));
    return connections;
  }

  /** Returns the CONNACK; empty when the connection is closed without one. */
  async function readResponse(connectBytes: Buffer, socket = open()): Promise<number[]> {
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
    for (const socket of sockets) socket.destroy();
    const responses = new Set((await Promise.all(attempts)).map(String));
    // Those that were not rejected yet have been closed.
    expect(responses).toEqual(new Set([`${BAD_CREDENTIALS}`, '']));
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
        const socket = open();
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
    const context = { devices: { findForConnect }, authKeys: AUTH_KEYS, limits };
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
