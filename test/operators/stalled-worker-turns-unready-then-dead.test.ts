import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { startRedis, type TestServer } from '../../packages/presence/test/start-server.ts';
import { createProducers, type Producers } from '../../packages/queue/src/producers.ts';
import { type ServiceProcess, startService } from '../support/operators/service-process.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { startTestDatabase, type TestDatabase } from '../support/test-database.ts';
import { until } from '../support/until.ts';

/** What only the connections of BullMQ's workers send. */
const WORKER_COMMANDS = ['bzpopmin', ':stalled-check'];
const PROBE_EVERY_MS = 1_000;
const STALLED_WITHIN_MS = 90_000;
const RECOVERED_WITHIN_MS = 30_000;

let database: TestDatabase;
let redis: TestServer & { url: string };
let proxy: TcpProxy;
let worker: ServiceProcess;
let producers: Producers;
beforeAll(async () => {
  [database, redis] = await Promise.all([startTestDatabase(), startRedis()]);
  proxy = await startTcpProxy(redis.port);
  worker = await startService('delivery-worker', {
    MONGODB_URI: database.uri,
    REDIS_URL: `redis://127.0.0.1:${proxy.port}`,
  });
  producers = createProducers(redis, () => undefined);
  await untilStatus('/readyz', 200, 30_000);
}, 60_000);
afterAll(async () => {
  worker?.kill('SIGKILL');
  await worker?.exited;
  await producers?.close();
  await proxy?.stop();
  await redis?.stop();
  await database?.stop();
});

function untilStatus(path: '/readyz' | '/livez', status: number, timeoutMs: number) {
  const answers = async () => {
    const result = await worker.probe(path);
    return result.status === status && result;
  };
  return until(answers, { timeoutMs, everyMs: PROBE_EVERY_MS, what: `${path} ${status}` });
}

/** Adds jobs until it is stopped: a worker takes each within milliseconds, as their pushes don't exist. */
function keepAddingJobs(): () => Promise<void> {
  let isStopped = false;
  const adding = (async () => {
    for (let n = 0; !isStopped; n += 1) {
      await producers.sendEmbedded(`missing-${n}`);
      await sleep(200);
    }
  })();
  return () => {
    isStopped = true;
    return adding;
  };
}

test('while jobs wait; it takes them when its connections work again', async () => {
  const stopAdding = keepAddingJobs();
  const unmute = proxy.muteConnections(WORKER_COMMANDS);
  const unready = await untilStatus('/readyz', 503, STALLED_WITHIN_MS);
  expect(unready.faults).toEqual(['queue send: no progress']);
  expect(await worker.probe('/livez')).toEqual({ status: 200, faults: [] });
  expect(await untilStatus('/livez', 503, STALLED_WITHIN_MS)).toEqual(
    expect.objectContaining({ faults: ['queue send: no progress'] }),
  );
  expect(worker.isRunning()).toBe(true);
  unmute();
  await stopAdding();
  await until(async () => (await producers.countDue('send')) === 0, {
    timeoutMs: RECOVERED_WITHIN_MS,
    what: 'all jobs taken',
  });
  await untilStatus('/readyz', 200, RECOVERED_WITHIN_MS);
  expect((await worker.probe('/livez')).status).toBe(200);
}, 200_000);
