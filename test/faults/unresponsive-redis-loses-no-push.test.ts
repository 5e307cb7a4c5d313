import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Redis } from '../../packages/presence/src/redis.ts';
import { type Attempt, attemptPush } from '../support/faults/attempts.ts';
import { countArrivals } from '../support/faults/expect-complete.ts';
import { type Fixture, openFixture } from '../support/faults/fixture.ts';
import type { SentPush } from '../support/faults/pushes.ts';
import { createRedisServer, type RedisServer } from '../support/faults/redis-server.ts';
import { openRedis } from '../support/redis.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';

const POOL_SIZE = { registered: 2_000, real: 20 };
const FROZEN_MS = 60_000;
const STUCK_MS = 10_000;
const SEND_EVERY_MS = 500;
const ACCEPTED_WITHIN_MS = 1_000;
/** Workers resume, and everything that was sent meanwhile has arrived. */
const RESUMED = { timeoutMs: 30_000, what: 'the pushes sent meanwhile' };

let fixture: Fixture;
let server: RedisServer;
let proxy: TcpProxy;
let redis: Redis;
beforeAll(async () => {
  server = await createRedisServer();
  await server.start();
  proxy = await startTcpProxy(server.port);
  redis = await openRedis({ redis: server.url });
  fixture = await openFixture(POOL_SIZE, { env: { REDIS_URL: `redis://127.0.0.1:${proxy.port}` } });
});
afterAll(async () => {
  await fixture?.close();
  redis?.disconnect();
  await proxy?.stop();
  await server?.remove();
});

/** Sends to all devices for a while; every send must be accepted, and soon. */
async function sendFor(ms: number): Promise<SentPush[]> {
  const { stack, pool } = fixture;
  const attempts: Attempt[] = [];
  const end = performance.now() + ms;
  while (performance.now() < end) {
    attempts.push(await attemptPush(stack, pool.tokens.slice(0, POOL_SIZE.real + 10)));
    await sleep(SEND_EVERY_MS);
  }
  expect(Math.max(...attempts.map(({ tookMs }) => tookMs))).toBeLessThan(ACCEPTED_WITHIN_MS);
  return attempts.map((attempt) => {
    if (!attempt.isAccepted) throw new Error(`a send was refused: ${JSON.stringify(attempt)}`);
    return attempt.push;
  });
}

async function expectAllArrive(sent: readonly SentPush[]): Promise<void> {
  const hasAll = () =>
    fixture.pool.devices.every((device) => sent.every((push) => countArrivals(device, push) > 0));
  await until(hasAll, RESUMED);
}

test('frozen for a minute', async () => {
  server.freeze();
  const sent = await sendFor(FROZEN_MS).finally(() => server.thaw());
  await expectAllArrive(sent);
}, 150_000);

test('behind stalled connections', async () => {
  proxy.stall();
  await expectAllArrive(await sendFor(STUCK_MS));
}, 90_000);

test('full, so that it accepts no more data', async () => {
  await redis.config('SET', 'maxmemory', '1mb');
  const sent = await sendFor(STUCK_MS).finally(() => redis.config('SET', 'maxmemory', '0'));
  await expectAllArrive(sent);
}, 90_000);
