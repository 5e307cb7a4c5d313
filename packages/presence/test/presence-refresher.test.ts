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

let server: Awaited<ReturnType<typeof startRedis>>;
let presence: PresenceServer;
let redis: Redis;
let presenceReader: PresenceReader;
let gateways: TestGateway[];
beforeAll(async () => {
  server = await startRedis();
  presence = await connectPresence(server);
  redis = presence.redis as Redis;
  presenceReader = createPresenceReader(presence);
});
afterAll(async () => {
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

/** Closes all other connections to Redis; they reconnect at once. */
const breakConnections = () => redis.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
const connectionOf = async (token: string) => (await presenceReader.lookup([token]))[0]?.connection;

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
  return { reregistered, rechecked, unregister, stop };
}

describe('without a reconnect', () => {
  test('a missing entry is restored by the next refresh, and its device is reported as reregistered', async () => {
    const { reregistered, rechecked, stop } = await refreshOver(redis, ['s1', 's2']);
    try {
      await redis.del('p:s1');
      await until(() => reregistered.length > 0);
      expect(await redis.get('p:s1')).toMatch(/^g\|k\|\d+$/);
      expect([reregistered, rechecked]).toEqual([['s1'], []]);
    } finally {
      stop();
    }
  });

  test('a device is reported as reregistered if the response to the restoring refresh was lost', async () => {
    const proxy = await startTcpProxy(server.port);
    const client = await connectRedis({ url: `redis://127.0.0.1:${proxy.port}` });
    const { reregistered, stop } = await refreshOver(client, ['w1']);
    try {
      proxy.dropResponses();
      await redis.del('p:w1');
      await until(async () => (await redis.exists('p:w1')) === 1);
      expect(reregistered).toEqual([]);
      proxy.cut();
      proxy.restore();
      await until(() => reregistered.includes('w1'));
    } finally {
      stop();
      client.disconnect();
      await proxy.stop();
    }
  });

  test('a removal that Redis refuses is repeated until it succeeds, with one timer for all its attempts', async () => {
    const { setTimeout } = globalThis;
    let timers = 0;
    const counting = (...args: Parameters<typeof setTimeout>) => {
      timers += args[1] === TTL_SECONDS.presence * 1_000 ? 1 : 0;
      return setTimeout(...args);
    };
    const { __promisify__ } = setTimeout;
    globalThis.setTimeout = Object.assign(counting, { __promisify__ }) as typeof setTimeout;
    const { unregister, stop } = await refreshOver(redis, ['u1']);
    try {
      await redis.config('RESETSTAT');
      await redis.config('SET', 'min-replicas-to-write', '1');
      await unregister({ token: 'u1', connection: 'k', connectedAt: 0 });
      await until(async () => {
        const [, failed] =
          /cmdstat_eval:.*failed_calls=(\d+)/.exec(await redis.info('commandstats')) ?? [];
        return Number(failed) > 3;
      });
      expect(await redis.exists('p:u1')).toBe(1);
      await redis.config('SET', 'min-replicas-to-write', '0');
      await until(async () => (await redis.exists('p:u1')) === 0);
      expect(timers).toBe(1);
    } finally {
      globalThis.setTimeout = setTimeout;
      await redis.config('SET', 'min-replicas-to-write', '0');
      stop();
    }
  });
});

describe('after a reconnect to Redis', () => {
  test('a device without an entry is registered again, and the inboxes of the others are rechecked', async () => {
    const gateway = await startTestGateway();
    const tokens = Array.from({ length: 25 }, (_, n) => `r${n}`);
    await Promise.all(tokens.map((token) => gateway.connect(token, `k-${token}`)));
    await redis.del('p:r7', 'p:r14');
    await breakConnections();
    const { reregistered, rechecked } = gateway;
    await until(() => reregistered.length + rechecked.length === tokens.length);
    expect(reregistered.sort()).toEqual(['r14', 'r7']);
    expect(await connectionOf('r7')).toBe('k-r7');
  });

  test('a device that has moved keeps its newer connection, although its entry is missing', async () => {
    const [first, second] = [await startTestGateway(), await startTestGateway()];
    await first.connect('m1', 'k1', OLDER);
    await second.connect('m1', 'k2');
    await until(() => first.kicked.length === 1);
    // The first gateway has no record of the move; the result is the same whichever gateway checks first.
    await redis.del('p:m1');
    await breakConnections();
    await until(() => first.kicked.length > 1 && second.reregistered.includes('m1'));
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
    await until(() => second.reregistered.includes('m2'));
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
    await until(() => gateway.reregistered.includes('m4'));
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
    await until(() => first.kicked.some(({ connection }) => connection === 'k1'));
    expect(await connectionOf('m3')).toBe('k2');
  });

  test('a disconnected device is offline, although Redis has its entry again', async () => {
    const gateway = await startTestGateway();
    await gateway.connect('l1', 'k1');
    const before = (await redis.get('p:l1')) ?? '';
    await gateway.disconnect('l1');
    await redis.set('p:l1', before, 'EX', 300);
    await breakConnections();
    await until(async () => (await connectionOf('l1')) === undefined);
  });
});
