import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { startTcpProxy } from '../../../test/support/tcp-proxy.ts';
import { until } from '../../../test/support/until.ts';
import { createPresenceKeys, TTL_SECONDS } from '../src/keys.ts';
import { createPresenceReader, type PresenceReader } from '../src/presence-reader.ts';
import { createPresenceRefresher } from '../src/presence-refresher.ts';
import { type ConnectedDevice, createPresenceRegistry } from '../src/presence-registry.ts';
import { connectPresence, type PresenceServer } from '../src/presence-server.ts';
import { connectRedis, type Redis } from '../src/redis.ts';
import { startRedis } from './start-server.ts';
import { openTestGateway, type TestGateway } from './test-gateway.ts';

/** Time within which all entries are checked after a reconnect. */
const WITHIN_RECHECK = { timeoutMs: 10_000 };

let server: Awaited<ReturnType<typeof startRedis>>;
let presence: PresenceServer;
let redis: Redis;
let presenceReader: PresenceReader;
let gateways: TestGateway[];
let begun: Record<'lostResponse' | 'recheck', Promise<void>>;
beforeAll(async () => {
  server = await startRedis();
  presence = await connectPresence(server);
  redis = presence.redis as Redis;
  presenceReader = createPresenceReader(presence);
  begun = { lostResponse: onOwnRedis(loseResponse), recheck: onOwnRedis(recheckMany) };
  // Its own test reports its failure.
  for (const checked of Object.values(begun)) checked.catch(() => undefined);
});
afterAll(async () => {
  await Promise.allSettled(Object.values(begun));
  presence.close();
  await server.stop();
});
beforeEach(() => {
  gateways = [];
});
afterEach(async () => {
  for (const { channel } of gateways) await channel.close();
});

async function startTestGateway(): Promise<TestGateway> {
  const gateway = await openTestGateway(server.url);
  gateways.push(gateway);
  return gateway;
}

/** Closes all connections to Redis except the given one; they reconnect at once. */
async function breakConnections(kept = redis): Promise<void> {
  await kept.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
}

async function connectionOf(token: string, reader = presenceReader): Promise<string | undefined> {
  return (await reader.lookup([token]))[0]?.connection;
}

/** A connection older than another one by more than the maximum clock skew. */
const OLDER = { ageMs: 5_000 };

/** Registers devices over a connection to Redis and refreshes them every half second. */
async function refreshOver(client: Redis, tokens: string[]) {
  const devices = tokens.map(
    (token): ConnectedDevice => ({ token, connection: 'k', connectedAt: 0 }),
  );
  const reregistered: string[] = [];
  const rechecked: string[] = [];
  const on = {
    devices: () => devices,
    isOpen: () => true,
    now: Date.now,
    gateway: () => 'g',
    reregistered: ({ token }: ConnectedDevice) => reregistered.push(token),
    recheckInbox: ({ token }: ConnectedDevice) => rechecked.push(token),
    takenOver: () => undefined,
  };
  const server = {
    redis: client,
    keys: createPresenceKeys(),
    isReady: () => client.status === 'ready',
  };
  const refresher = createPresenceRefresher(createPresenceRegistry(server, on), on, {
    refreshIntervalMs: 500,
  });
  await Promise.all(devices.map(refresher.register));
  const { stop, unregister } = refresher;
  return { announced: reregistered, rechecked, unregister, stop };
}

describe('without a reconnect', () => {
  test('a missing entry is restored by the next refresh, and its device is reported as reregistered', async () => {
    const { announced: reregistered, rechecked, stop } = await refreshOver(redis, ['s1', 's2']);
    try {
      await redis.del('p:s1');
      await until(() => reregistered.length > 0);
      expect(await redis.get('p:s1')).toMatch(/^g\|k\|\d+$/);
      expect([reregistered, rechecked]).toEqual([['s1'], []]);
    } finally {
      stop();
    }
  });

  test('a device is reported as reregistered if the response to the restoring refresh was lost', () =>
    begun.lostResponse);
});

test('a removal that Redis refuses is repeated until it succeeds, with one timer for all its attempts', () =>
  onOwnRedis(repeatRemoval));

describe('after a reconnect to Redis', () => {
  test('a device without an entry is registered again, and the inboxes of the others are rechecked', () =>
    begun.recheck);

  test('a device that has moved keeps its newer connection, although its entry is missing', async () => {
    const [first, second] = [await startTestGateway(), await startTestGateway()];
    await first.connect('m1', 'k1', OLDER);
    await second.connect('m1', 'k2');
    await until(() => first.kicked.length === 1);
    // The first gateway has no record of the move; the result is the same whichever gateway checks first.
    await redis.del('p:m1');
    await breakConnections();
    await until(
      () => first.kicked.length > 1 && second.reregistered.includes('m1'),
      WITHIN_RECHECK,
    );
    expect(await connectionOf('m1')).toBe('k2');
    expect([first.kicked.at(-1)?.connection, second.kicked]).toEqual(['k1', []]);
  });

  test('an outdated entry does not hide the newer connection', async () => {
    const [first, second] = [await startTestGateway(), await startTestGateway()];
    await first.connect('m2', 'k1', OLDER);
    const before = (await redis.get('p:m2')) ?? '';
    await second.connect('m2', 'k2');
    await redis.set('p:m2', before, 'EX', 300);
    await breakConnections();
    await until(() => second.reregistered.includes('m2'), WITHIN_RECHECK);
    expect(await connectionOf('m2')).toBe('k2');
    await until(() => first.kicked.length > 1);
    expect(second.kicked).toEqual([]);
  });

  test('an outdated entry of the same gateway does not hide a connection opened right after', async () => {
    const gateway = await startTestGateway();
    await gateway.connect('m4', 'k1');
    const before = (await redis.get('p:m4')) ?? '';
    await gateway.connect('m4', 'k2');
    await redis.set('p:m4', before, 'EX', 300);
    await breakConnections();
    await until(() => gateway.reregistered.includes('m4'), WITHIN_RECHECK);
    expect(await connectionOf('m4')).toBe('k2');
    expect(gateway.kicked.map(({ connection }) => connection)).not.toContain('k2');
  });

  test('an older connection that missed its kick is closed', async () => {
    const [first, second] = [await startTestGateway(), await startTestGateway()];
    await second.connect('m3', 'k2');
    const present = (await redis.getdel('p:m3')) ?? '';
    // It has no record of the newer connection, as if the kick had been lost.
    await first.connect('m3', 'k1', OLDER);
    await redis.set('p:m3', present, 'EX', 300);
    await breakConnections();
    await until(() => first.kicked.some(({ connection }) => connection === 'k1'), WITHIN_RECHECK);
    expect(await connectionOf('m3')).toBe('k2');
  });

  test('a disconnected device is offline, although Redis has its entry again', async () => {
    const gateway = await startTestGateway();
    await gateway.connect('l1', 'k1');
    const before = (await redis.get('p:l1')) ?? '';
    await gateway.disconnect('l1');
    await redis.set('p:l1', before, 'EX', 300);
    await breakConnections();
    await until(async () => (await connectionOf('l1')) === undefined, WITHIN_RECHECK);
  });
});

/** Runs the checks that take seconds beside the tests, on a Redis of its own whose connections no other test closes. */
async function onOwnRedis(task: (own: OwnRedis) => Promise<void>): Promise<void> {
  const own = await startRedis();
  const client = await connectRedis(own);
  try {
    await task({ url: own.url, port: own.port, redis: client });
  } finally {
    client.disconnect();
    await own.stop();
  }
}

interface OwnRedis {
  url: string;
  port: number;
  redis: Redis;
}

async function loseResponse({ port, redis: own }: OwnRedis): Promise<void> {
  const proxy = await startTcpProxy(port);
  const client = await connectRedis({ url: `redis://127.0.0.1:${proxy.port}` });
  const { announced: reregistered, stop } = await refreshOver(client, ['w1']);
  try {
    proxy.dropResponses();
    await own.del('p:w1');
    await until(async () => (await own.exists('p:w1')) === 1);
    await until(() => reregistered.includes('w1'), { timeoutMs: 20_000 });
  } finally {
    stop();
    client.disconnect();
    await proxy.stop();
  }
}

async function recheckMany({ url, redis: own }: OwnRedis): Promise<void> {
  const gateway = await openTestGateway(url);
  try {
    const tokens = Array.from({ length: 500 }, (_, n) => `r${n}`);
    await Promise.all(tokens.map((token) => gateway.connect(token, `k-${token}`)));
    await own.del('p:r7', 'p:r400');
    await breakConnections(own);
    const isAllHandled = () =>
      gateway.reregistered.length + gateway.rechecked.length === tokens.length;
    await until(isAllHandled, WITHIN_RECHECK);
    expect(gateway.reregistered.sort()).toEqual(['r400', 'r7']);
    const ownPresence = await connectPresence({ url });
    expect(await connectionOf('r7', createPresenceReader(ownPresence))).toBe('k-r7');
    ownPresence.close();
  } finally {
    await gateway.channel.close();
  }
}

async function repeatRemoval({ url, redis: own }: OwnRedis): Promise<void> {
  const client = await connectRedis({ url });
  const expiryMs = TTL_SECONDS.presence * 1_000;
  const { setTimeout } = globalThis;
  const timers: unknown[] = [];
  globalThis.setTimeout = Object.assign(
    (...args: Parameters<typeof setTimeout>) => {
      if (args[1] === expiryMs) timers.push(args);
      return setTimeout(...args);
    },
    { __promisify__: setTimeout.__promisify__ },
  ) as typeof setTimeout;
  const { unregister, stop } = await refreshOver(client, ['u1']);
  try {
    await own.config('SET', 'min-replicas-to-write', '1');
    await unregister({ token: 'u1', connection: 'k', connectedAt: 0 });
    // Some ticks, each with an attempt.
    await sleep(1_000);
    expect(await own.exists('p:u1')).toBe(1);
    await own.config('SET', 'min-replicas-to-write', '0');
    await until(async () => (await own.exists('p:u1')) === 0);
    expect(timers).toHaveLength(1);
  } finally {
    globalThis.setTimeout = setTimeout;
    stop();
    client.disconnect();
  }
}
