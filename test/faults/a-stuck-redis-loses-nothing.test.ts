import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Redis } from 'ioredis';
import { type Attempt, attemptPush } from '../support/faults/attempts.ts';
import type { SentPush } from '../support/faults/pushes.ts';
import { createRedisServer, type RedisServer } from '../support/faults/redis-server.ts';
import { openScene, type Scene } from '../support/faults/scene.ts';
import { countOf } from '../support/faults/whole.ts';
import { openRedis } from '../support/redis.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';

const CROWD = { registered: 2_000, real: 20 };
const FROZEN_MS = 60_000;
const STUCK_MS = 10_000;
const SEND_EVERY_MS = 500;
const ACCEPTED_WITHIN_MS = 1_000;
/** Workers resume, and everything that was sent meanwhile has arrived. */
const GOES_ON = { timeoutMs: 30_000, what: 'what was sent meanwhile' };

let scene: Scene;
let server: RedisServer;
let way: TcpProxy;
let redis: Redis;
beforeAll(async () => {
  server = await createRedisServer();
  await server.start();
  way = await startTcpProxy(server.port);
  redis = await openRedis({ redis: server.url });
  scene = await openScene(CROWD, { env: { REDIS_URL: `redis://127.0.0.1:${way.port}` } });
});
afterAll(async () => {
  await scene?.close();
  redis?.disconnect();
  await way?.stop();
  await server?.remove();
});

/** Sends to everybody for a while; every send must be accepted, and soon. */
async function sendFor(ms: number): Promise<SentPush[]> {
  const { stack, crowd } = scene;
  const attempts: Attempt[] = [];
  const end = performance.now() + ms;
  while (performance.now() < end) {
    attempts.push(await attemptPush(stack, crowd.tokens.slice(0, CROWD.real + 10)));
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
    scene.crowd.devices.every((device) => sent.every((push) => countOf(device, push) > 0));
  await until(hasAll, GOES_ON);
}

test('frozen for a minute', async () => {
  server.freeze();
  const sent = await sendFor(FROZEN_MS).finally(() => server.thaw());
  await expectAllArrive(sent);
}, 150_000);

test('behind connections that lead nowhere', async () => {
  way.stall();
  await expectAllArrive(await sendFor(STUCK_MS));
}, 90_000);

test('full, so that it takes nothing more', async () => {
  await redis.config('SET', 'maxmemory', '1mb');
  const sent = await sendFor(STUCK_MS).finally(() => redis.config('SET', 'maxmemory', '0'));
  await expectAllArrive(sent);
}, 90_000);
