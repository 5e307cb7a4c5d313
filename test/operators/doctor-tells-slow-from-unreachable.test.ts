import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { checkRedis } from '../../packages/admin/src/doctor.ts';
import { runCarillon } from '../../services/cli/test/run-carillon.ts';
import { createRedisServer, type RedisServer } from '../support/faults/redis-server.ts';
import { startMongod } from '../support/mongod-server.ts';
import { openRedis } from '../support/redis.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import { startTestDatabase, type TestDatabase } from '../support/test-database.ts';

/** MongoDB is asked dozens of times. */
const MONGODB_ANSWER_MS = 1_100;
const REDIS_ANSWER_MS = 3_000;
const SILENT = 'accepts connections but has not answered within 8 s';
const BLOCKED_MS = 400;
/** Nothing listens on port 1, which only root can bind. */
const NOBODY = 'http://127.0.0.1:1';

interface Finding {
  check: string;
  ok: boolean;
  detail: string;
}

let database: TestDatabase;
let redis: RedisServer;
beforeAll(async () => {
  [database, redis] = await Promise.all([startTestDatabase(), createRedisServer()]);
  await redis.start();
});
afterAll(async () => {
  await redis?.remove();
  await database?.stop();
});

/** Runs the doctor. @returns its exit code, and the finding of each check */
async function runDoctor(env: Record<string, string>) {
  const { code, out } = await runCarillon(['--json', 'doctor'], { env });
  const findings = JSON.parse(out) as Finding[];
  return { code, found: Object.fromEntries(findings.map((one) => [one.check, one])) };
}

test('servers that answer late are slow, and no check fails or is missing for it', async () => {
  const port = Number(new URL(database.uri).port);
  const [mongodb, cache] = await Promise.all([startTcpProxy(port), startTcpProxy(redis.port)]);
  mongodb.delayResponses(MONGODB_ANSWER_MS);
  cache.delayResponses(REDIS_ANSWER_MS);
  const MONGODB_URI = database.uri.replace(`:${port}`, `:${mongodb.port}`);
  const REDIS_URL = `redis://127.0.0.1:${cache.port}`;
  const { code, found } = await runDoctor({ MONGODB_URI, REDIS_URL });
  await Promise.all([mongodb.stop(), cache.stop()]);
  // Its other settings are missing.
  expect(code).toBe(1);
  const slow = (pattern: RegExp) => ({ ok: true, detail: expect.stringMatching(pattern) });
  expect(found).toMatchObject({
    mongodb: slow(/^slow: answered after 1\.\d s; /),
    redis: slow(/^slow: answered after 3\.\d s; /),
    ...{ workers: { ok: true }, providers: { ok: true }, 'mongodb schema': { ok: true } },
    ...{ 'refused credentials': { ok: true }, 'redis memory': { ok: true } },
  });
});

test('a frozen server accepts connections and does not answer, a missing one can not be reached, the others are checked', async () => {
  const mongod = await startMongod();
  const env = { REDIS_URL: redis.url, CARILLON_API: NOBODY, CARILLON_MQTT: 'mqtt://127.0.0.1:1' };
  process.kill(mongod.pid, 'SIGSTOP');
  const withMongod = await runDoctor({
    ...env,
    MONGODB_URI: `mongodb://127.0.0.1:${mongod.port}/carillon`,
  });
  process.kill(mongod.pid, 'SIGCONT');
  await mongod.stop();
  redis.freeze();
  const withRedis = await runDoctor({ ...env, MONGODB_URI: database.uri });
  redis.thaw();
  expect([withMongod.code, withRedis.code]).toEqual([1, 1]);
  const failed = (detail: string) => ({ ok: false, detail: expect.stringContaining(detail) });
  const missing = {
    api: failed(`${NOBODY} can't be reached: connect ECONNREFUSED`),
    mqtt: failed("127.0.0.1:1 can't be reached: connect ECONNREFUSED"),
    node: { ok: true },
  };
  expect(withMongod.found).toMatchObject({
    ...missing,
    mongodb: failed(`MongoDB at 127.0.0.1:${mongod.port} ${SILENT}`),
    ...{ redis: { ok: true }, workers: { ok: true } },
  });
  expect(withRedis.found).toMatchObject({
    ...missing,
    redis: failed(`Redis at 127.0.0.1:${redis.port} ${SILENT}`),
    ...{ mongodb: { ok: true }, clock: { ok: true }, 'mongodb indexes': expect.anything() },
  });
});

test('time in which the process itself was busy is no silence of the server', async () => {
  let isDone = false;
  const block = (): void => {
    for (const end = performance.now() + BLOCKED_MS; performance.now() < end; );
    if (!isDone) setImmediate(block);
  };
  const checking = checkRedis({ url: redis.url });
  block();
  const findings = await checking;
  isDone = true;
  expect(findings[0]).toMatchObject({ check: 'redis', ok: true });
});

test('a Redis near its limit is named with what to do, one without a limit is not', async () => {
  const client = await openRedis({ redis: redis.url });
  const setMax = (bytes: number) => client.config('SET', 'maxmemory', bytes);
  const readMemory = async () => {
    const { found } = await runDoctor({ MONGODB_URI: database.uri, REDIS_URL: redis.url });
    return found['redis memory'];
  };
  expect(await readMemory()).toMatchObject({ ok: true, detail: 'no maxmemory' });
  const [, used = ''] = /^used_memory:(\d+)/m.exec(await client.info('memory')) ?? [];
  await setMax(Number(used) * 2);
  expect(await readMemory()).toMatchObject({
    ok: true,
    detail: expect.stringMatching(/^\d\d % of maxmemory/),
  });
  await setMax(Math.round(Number(used) * 1.1));
  expect(await readMemory()).toMatchObject({
    ok: false,
    detail: expect.stringMatching(/^[89]\d % of maxmemory .* Raise maxmemory/),
  });
  client.disconnect();
});
