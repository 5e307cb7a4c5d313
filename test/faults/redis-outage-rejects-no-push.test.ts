import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import {
  countArrivals,
  expectComplete,
  MAX_DUPLICATES_PER_RECIPIENT,
  untilAllArrived,
} from '../support/faults/expect-complete.ts';
import { type Fixture, openFixture } from '../support/faults/fixture.ts';
import {
  type Attempt,
  attemptPush,
  expectPartlyClosed,
  type SentPush,
  sendPush,
  untilPartlyClosed,
} from '../support/faults/pushes.ts';
import { createRedisServer, type RedisServer } from '../support/faults/redis-server.ts';
import { expectWithin } from '../support/lag.ts';
import { openRedis } from '../support/redis.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';

const POOL_SIZE = { registered: 30_000, real: 40 };
/** Guarantee G14, and how long Redis is unavailable. */
const AWAY_MS = 60_000;
const STUCK_MS = 10_000;
const SEND_EVERY_MS = 500;
/** A request does not wait for Redis. */
const ACCEPTED_WITHIN_MS = 1_000;
const CONTINUES_WITHIN_MS = 10_000;
const UNACKNOWLEDGING = 6;
const LIMIT_MS = 240_000;

let fixture: Fixture;
let server: RedisServer;
let proxy: TcpProxy;
beforeAll(async () => {
  server = await createRedisServer();
  await server.start();
  proxy = await startTcpProxy(server.port);
  fixture = await openFixture(POOL_SIZE, { env: { REDIS_URL: `redis://127.0.0.1:${proxy.port}` } });
});
afterAll(async () => {
  await fixture?.close();
  await proxy?.stop();
  await server?.remove();
});

/** Sends to the real devices, and some that are offline, for a while; every push must be accepted, and soon. */
async function sendFor(ms: number): Promise<SentPush[]> {
  const { stack, pool } = fixture;
  const attempts: Attempt[] = [];
  let lagMs = 0;
  for (const end = performance.now() + ms; performance.now() < end; ) {
    attempts.push(await attemptPush(stack, pool.tokens.slice(0, POOL_SIZE.real + 10)));
    const sleptFrom = performance.now();
    await sleep(SEND_EVERY_MS);
    lagMs = Math.max(lagMs, performance.now() - sleptFrom - SEND_EVERY_MS);
  }
  expect(attempts.filter(({ isAccepted }) => !isAccepted)).toEqual([]);
  const slowestMs = Math.max(...attempts.map(({ tookMs }) => tookMs));
  expect(slowestMs).toBeLessThan(ACCEPTED_WITHIN_MS + 3 * lagMs);
  return attempts.flatMap((attempt) => (attempt.isAccepted ? [attempt.push] : []));
}

async function setMaxMemory(bytes: string): Promise<void> {
  const redis = await openRedis({ redis: server.url });
  await redis.config('SET', 'maxmemory', bytes).finally(() => redis.disconnect());
}

test(
  'killed for a minute in the middle of a push, which continues after the restart',
  async () => {
    const { stack, mongo, pool } = fixture;
    // They keep a few batches open.
    const holders = pool.devices.slice(0, UNACKNOWLEDGING);
    for (const device of holders) device.holdReceipts();
    const push = await sendPush(stack, pool.tokens);
    await untilPartlyClosed(mongo, push);
    await server.kill();
    await expectPartlyClosed(mongo, push);
    for (const device of holders) device.releaseReceipts();
    const sent = await sendFor(AWAY_MS);
    await server.start();
    const hasArrived = () =>
      pool.devices.some((device) => sent.some((one) => countArrivals(device, one) > 0));
    await expectWithin(CONTINUES_WITHIN_MS, until(hasArrived));
    await expectComplete(fixture, push, 'Redis unavailable');
    await untilAllArrived(pool.devices, sent);
    const counts = pool.devices.flatMap((device) => sent.map((one) => countArrivals(device, one)));
    const duplicates = counts.reduce((sum, n) => sum + n - 1, 0);
    process.stdout.write(
      `duplicates sent without Redis: ${duplicates} of ${counts.length} recipients\n`,
    );
    const allowed = Math.floor(counts.length * MAX_DUPLICATES_PER_RECIPIENT);
    expect(duplicates).toBeLessThanOrEqual(allowed);
  },
  LIMIT_MS,
);

test.each<[what: string, ms: number, begin: () => unknown, end: () => unknown]>([
  ['frozen for a minute', AWAY_MS, () => server.freeze(), () => server.thaw()],
  ['behind stalled connections', STUCK_MS, () => proxy.stall(), () => undefined],
])(
  '%s: all pushes arrive afterwards',
  async (_what, ms, begin, end) => {
    await begin();
    const sent = await sendFor(ms).finally(end);
    await untilAllArrived(fixture.pool.devices, sent);
  },
  LIMIT_MS,
);

test(
  'full: all pushes are accepted, none arrives before there is room, and then each does',
  async () => {
    const { pool } = fixture;
    await setMaxMemory('1mb');
    let sent: SentPush[] = [];
    try {
      sent = await sendFor(STUCK_MS);
      const arrived = sent.filter((one) =>
        pool.devices.some((device) => countArrivals(device, one) > 0),
      );
      expect(arrived).toEqual([]);
    } finally {
      await setMaxMemory('0');
    }
    expect(sent.length).toBeGreaterThan(0);
    await untilAllArrived(pool.devices, sent);
  },
  LIMIT_MS,
);
