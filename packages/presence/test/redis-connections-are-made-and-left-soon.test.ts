import { rm } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { processCounts } from '@carillon/core/process-counts';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { Redis as Client } from 'ioredis';
import { createDataFolder } from '../../../test/support/data-folder.ts';
import { startTcpProxy } from '../../../test/support/tcp-proxy.ts';
import { until } from '../../../test/support/until.ts';
import { connectRedis, createRedis, pingRedis, probeRedis, type Redis } from '../src/redis.ts';
import { freePort, startRedis, startServer, type TestServer } from './start-server.ts';

let server: Awaited<ReturnType<typeof startRedis>>;
const cleanUps: (() => Promise<void> | void)[] = [];
beforeAll(async () => {
  server = await startRedis();
});
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});
afterAll(() => server?.stop());

describe('when Redis has loaded its data', () => {
  const PROFILES = ['command', 'blocking', 'producer', 'worker'] as const;
  const KEYS = 12_000;
  /** Loading would take a minute. */
  const MICROSECONDS_PER_KEY = 5_000;
  /** Redis estimates in whole seconds: from the second one on it reports that loading takes long. */
  const ESTIMATED_MS = 2_500;
  /** The library trusts such an estimate for ten seconds. */
  const TRUSTED_MS = 10_000;

  async function startLoading(port: number, folder: string, delay: number): Promise<TestServer> {
    const args = [
      ...['--port', `${port}`, '--bind', '127.0.0.1', '--dir', folder],
      ...['--save', '', '--appendonly', 'no', '--key-load-delay', `${delay}`],
      ...['--loading-process-events-interval-bytes', '1024'],
    ];
    const loading = await startServer('redis-server', () => args, port);
    cleanUps.push(loading.stop);
    return loading;
  }

  test('every connection is ready soon, whatever Redis estimated', async () => {
    const [port, folder] = [await freePort(), await createDataFolder()];
    cleanUps.push(() => rm(folder, { recursive: true, force: true }));
    const address = { url: `redis://127.0.0.1:${port}` };
    const first = await startLoading(port, folder, 0);
    await probeRedis(address, async (redis) => {
      const entries = Array.from({ length: KEYS }, (_, n) => [`key:${n}`, 'value'.repeat(20)]);
      await redis.mset(...entries.flat());
      await redis.save();
    });
    await first.stop();
    await startLoading(port, folder, MICROSECONDS_PER_KEY);
    const connections = PROFILES.map((profile) => createRedis(address, profile, () => undefined));
    cleanUps.push(() => {
      for (const redis of connections) redis.disconnect();
    });
    const trusted = sleep(TRUSTED_MS, 'not before the library trusts it', { ref: false });
    await sleep(ESTIMATED_MS);
    await finishLoading(port);
    const areReady = () => connections.every(({ status }) => status === 'ready');
    expect(await Promise.race([until(areReady), trusted])).toBe(true);
  });

  /** Lets Redis load the rest at once; while it loads it takes only such commands. */
  async function finishLoading(port: number): Promise<void> {
    const admin = new Client(port, '127.0.0.1', { enableReadyCheck: false });
    cleanUps.push(() => admin.disconnect());
    expect(await admin.info('persistence')).toContain('loading:1');
    await admin.config('SET', 'key-load-delay', '0');
  }
});

describe('of a server that does not respond', () => {
  async function startProxy() {
    const proxy = await startTcpProxy(server.port);
    cleanUps.push(proxy.stop);
    return proxy;
  }

  function connectOver(port: number, profile: Parameters<typeof createRedis>[1]) {
    const errors: string[] = [];
    const address = { url: `redis://127.0.0.1:${port}` };
    const redis = createRedis(address, profile, ({ message }) => void errors.push(message));
    cleanUps.push(() => redis.disconnect());
    return { redis, errors };
  }

  test('a new connection is left before its socket times out', async () => {
    const proxy = await startProxy();
    proxy.block('requests');
    const { redis, errors } = connectOver(proxy.port, 'worker');
    await until(() => redis.status === 'connect');
    // This connection stays silent, as one to a server that is suspended; later ones work.
    proxy.stall();
    proxy.restore();
    await until(() => redis.status === 'ready');
    expect(errors).toEqual(['the server has accepted the connection and not responded within 2 s']);
  });

  test('idle connections are left', async () => {
    const proxy = await startProxy();
    const profiles = ['command', 'producer'] as const;
    const connections = profiles.map((profile) => connectOver(proxy.port, profile));
    const areReady = () => connections.every(({ redis }) => redis.status === 'ready');
    await until(areReady);
    // The connections of now stay silent; later ones work.
    proxy.stall();
    const areLeft = () => connections.every(({ errors }) => errors.length > 0);
    await until(areLeft, { timeoutMs: 30_000, what: 'connections that are left' });
    await until(areReady);
    const error = "Socket timeout. Expecting data, but didn't receive any in 5000ms.";
    expect(connections.map(({ errors }) => errors)).toEqual([[error], [error]]);
  });
});

test('a Redis that runs no scripts is found at the start', async () => {
  await expect(pingRedis(server)).resolves.toBeUndefined();
  const acl = ['noscript', 'on', '>secret', '~*', '&*', '+@all', '-eval'] as const;
  await probeRedis(server, (redis) => redis.acl('SETUSER', ...acl));
  const url = server.url.replace('//', '//noscript:secret@');
  await expect(pingRedis({ url })).rejects.toThrow(/NOPERM/);
});

describe('of failed commands', () => {
  let redis: Redis;
  beforeAll(async () => {
    redis = await connectRedis(server);
    await redis.set('text', 'a');
  });
  afterAll(() => redis?.disconnect());

  async function copy(): Promise<Redis> {
    const copied = (redis as Client).duplicate();
    cleanUps.push(() => copied.disconnect());
    await until(() => copied.status === 'ready');
    return copied;
  }

  async function disconnected(): Promise<Redis> {
    const away = await connectRedis(server);
    away.disconnect();
    return away;
  }

  const pipeline = () => redis.pipeline().incr('text').get('text').incr('text').exec();

  test.each<[string, number, (copied: Redis, away: Redis) => Promise<unknown>]>([
    ['an error reply', 1, () => redis.incr('text')],
    ['an error reply to each command of a pipeline', 2, pipeline],
    ['an error reply over a copy of the connection', 1, (copied) => copied.incr('text')],
    ['a command without a connection', 1, (_, away) => away.get('text')],
    ['a script that is not loaded yet', 0, () => redis.evalsha('0'.repeat(40), 0)],
    ['a command that succeeds', 0, () => redis.get('text')],
  ])('%s counts %i', async (_what, count, call) => {
    const connections = [await copy(), await disconnected()] as const;
    const before = processCounts.redisCommandFailures;
    await call(...connections).catch(() => undefined);
    expect(processCounts.redisCommandFailures - before).toBe(count);
  });
});
