import { afterEach, expect, test } from '@jest/globals';
import { freePort } from '../../packages/presence/test/start-server.ts';
import { runCarillon } from '../../services/cli/test/run-carillon.ts';
import { startProcess } from '../support/child-process.ts';
import { createRedisServer } from '../support/faults/redis-server.ts';
import { expectWithin } from '../support/lag.ts';
import { startMongod } from '../support/mongod-server.ts';
import {
  readState,
  SERVICES_AND_CONSOLE,
  type ServiceName,
  type ServiceProcess,
  startService,
} from '../support/operators/service-process.ts';
import { until } from '../support/until.ts';

const READY_WITHIN_MS = 15_000;
const PASSWORD = 'not-to-be-logged';

let processes: ServiceProcess[] = [];
let releases: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const one of processes) one.kill('SIGKILL');
  await Promise.all(processes.map(({ exited }) => exited));
  for (const release of releases) await release();
  processes = [];
  releases = [];
});

async function start(service: ServiceName, env: Record<string, string>): Promise<ServiceProcess> {
  const started = await startService(service, env);
  processes.push(started);
  return started;
}

function untilWaitsFor(server: string, waiting: ServiceProcess): Promise<unknown> {
  return until(
    async () => (await waiting.probe('/readyz')).faults.join().includes(`waiting for ${server}`),
    // Five processes start at once.
    { timeoutMs: 150_000, everyMs: 100, what: `${waiting.service} waits for ${server}` },
  );
}

function untilReady(waiting: ServiceProcess): Promise<unknown> {
  const isReady = async () => (await waiting.probe('/readyz')).status === 200;
  const what = `${waiting.service} ready`;
  return expectWithin(READY_WITHIN_MS, until(isReady, { everyMs: 100, what }));
}

test('that are not reachable yet, and for the schema: alive, not ready, and ready by itself then; it stops without Redis', async () => {
  const [port, redis] = [await freePort(), await createRedisServer()];
  releases.push(redis.remove);
  const env = { MONGODB_URI: `mongodb://127.0.0.1:${port}/carillon`, REDIS_URL: redis.url };
  const services = await Promise.all(SERVICES_AND_CONSOLE.map((service) => start(service, env)));
  await Promise.all(services.map((one) => untilWaitsFor('MongoDB', one)));
  for (const one of services) {
    expect((await one.probe('/readyz')).status).toBe(503);
    expect((await one.probe('/livez')).status).toBe(200);
    expect(await readState(one.ops, 'event loop')).toBe('ok');
    await until(() => one.output().includes('waiting for MongoDB'));
  }
  const mongod = await startMongod(port);
  releases.push(mongod.stop);
  await Promise.all(services.map((one) => untilWaitsFor('the schema of MongoDB', one)));
  expect(await runCarillon(['migrate'], { env })).toMatchObject({ code: 0 });
  // The API accepts pushes without Redis, and the console shows them.
  const worksWithoutRedis = ({ service }: ServiceProcess) => ['api', 'dashboard'].includes(service);
  await Promise.all(
    services.map((one) => (worksWithoutRedis(one) ? untilReady(one) : untilWaitsFor('Redis', one))),
  );
  await redis.start();
  await Promise.all(services.map(untilReady));
  await redis.kill();
  for (const one of services) one.kill('SIGTERM');
  expect(await Promise.all(services.map(({ exited }) => exited))).toEqual(services.map(() => 0));
});

test.each(SERVICES_AND_CONSOLE)(
  '%s stops while it waits, and logs no password',
  async (service) => {
    const port = await freePort();
    const waiting = await start(service, {
      MONGODB_URI: `mongodb://carillon:${PASSWORD}@127.0.0.1:${port}/carillon`,
      REDIS_URL: `redis://carillon:${PASSWORD}@127.0.0.1:${port}`,
    });
    await untilWaitsFor('MongoDB', waiting);
    await until(() => waiting.output().includes('waiting for MongoDB'));
    waiting.kill('SIGTERM');
    expect(await waiting.exited).toBe(0);
    expect(waiting.output()).not.toContain(PASSWORD);
  },
);

test.each(['127.0.0.1:27017', 'mongodb://'])(
  'a wrong MONGODB_URI (%s) ends a service at once',
  async (uri) => {
    const env = { MONGODB_URI: uri, REDIS_URL: 'redis://127.0.0.1:1' };
    const wrong = await start('api', env);
    expect(await wrong.exited).toBe(1);
    expect(wrong.output()).toContain('MONGODB_URI');
  },
);

test('migrate --wait continues when MongoDB can be reached, and without --wait migrate fails at once', async () => {
  const port = await freePort();
  const startMigrate = (...options: string[]) =>
    startProcess(process.execPath, ['services/cli/src/main.ts', 'migrate', ...options], {
      env: { PATH: process.env.PATH ?? '', MONGODB_URI: `mongodb://127.0.0.1:${port}/carillon` },
    });
  expect(await startMigrate().exited).toBe(3);
  const waiting = startMigrate('--wait', '5m');
  const isWaiting = () => waiting.output().includes('Waiting for it.');
  await until(isWaiting, { what: 'a migration that waits' });
  releases.push((await startMongod(port)).stop);
  expect(await waiting.exited).toBe(0);
  expect(waiting.output()).toContain('The database is up to date.');
});
