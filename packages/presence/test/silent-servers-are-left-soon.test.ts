import { afterEach, expect, test } from '@jest/globals';
import { startTcpProxy } from '../../../test/support/tcp-proxy.ts';
import { until } from '../../../test/support/until.ts';
import { createRedis } from '../src/redis.ts';
import { startRedis } from './start-server.ts';

/** Below the ten seconds after which a worker's socket times out. */
const READY = { timeoutMs: 6_000, what: 'a connection to a server that responds' };

const cleanUps: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

test('a server that accepts a connection and does not respond is left before the socket times out', async () => {
  const server = await startRedis();
  cleanUps.push(server.stop);
  const proxy = await startTcpProxy(server.port);
  cleanUps.push(proxy.stop);
  proxy.block('requests');
  const address = { url: `redis://127.0.0.1:${proxy.port}` };
  const errors: string[] = [];
  const redis = createRedis(address, 'worker', ({ message }) => void errors.push(message));
  cleanUps.push(() => redis.disconnect());
  await until(() => redis.status === 'connect');
  // This connection stays silent, as one to a server that is suspended; later ones work.
  proxy.stall();
  proxy.restore();
  await until(() => redis.status === 'ready', READY);
  expect(errors).toEqual(['the server has accepted the connection and not responded within 2 s']);
});

test('idle connections are left when their server is suspended', async () => {
  const server = await startRedis();
  cleanUps.push(server.stop);
  const proxy = await startTcpProxy(server.port);
  cleanUps.push(proxy.stop);
  const address = { url: `redis://127.0.0.1:${proxy.port}` };
  const connections = (['command', 'producer'] as const).map((profile) => {
    const errors: string[] = [];
    const redis = createRedis(address, profile, ({ message }) => void errors.push(message));
    cleanUps.push(() => redis.disconnect());
    return { redis, errors };
  });
  const areReady = () => connections.every(({ redis }) => redis.status === 'ready');
  await until(areReady);
  // The connections of now stay silent; later ones work.
  proxy.stall();
  const areLeft = () => connections.every(({ errors }) => errors.length > 0);
  await until(areLeft, { timeoutMs: 30_000, what: 'connections that are left' });
  await until(areReady);
  const error = "Socket timeout. Expecting data, but didn't receive any in 5000ms.";
  expect(connections.map(({ errors }) => errors)).toEqual([[error], [error]]);
}, 60_000);
