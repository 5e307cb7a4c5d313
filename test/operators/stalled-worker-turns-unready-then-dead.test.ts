import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createProducers, type Producers } from '../../packages/queue/src/producers.ts';
import { type DataServers, startDataServers } from '../support/operators/data-servers.ts';
import {
  readState,
  type ServiceProcess,
  startService,
} from '../support/operators/service-process.ts';
import { until } from '../support/until.ts';

/** Commands that only the connections of BullMQ's workers send. */
const WORKER_COMMANDS = ['bzpopmin', ':stalled-check'];
const STALLED_WITHIN_MS = 90_000;
const RECOVERED_WITHIN_MS = 30_000;

let servers: DataServers;
let worker: ServiceProcess;
let producers: Producers;
beforeAll(async () => {
  servers = await startDataServers();
  worker = await startService('delivery-worker', servers.env);
  producers = createProducers(servers.redis, () => undefined);
  await worker.untilReady();
}, 60_000);
afterAll(async () => {
  worker?.kill('SIGKILL');
  await worker?.exited;
  await producers?.close();
  await servers?.stop();
});

/** Adds jobs until it is stopped: a worker takes each within milliseconds, as their pushes don't exist. */
function keepAddingJobs(): () => Promise<void> {
  let isStopped = false;
  const adding = (async () => {
    for (let n = 0; !isStopped; n += 1) {
      await producers.send({ app: 'a', id: `missing-${n}`, recipients: 1 });
      await sleep(200);
    }
  })();
  return () => {
    isStopped = true;
    return adding;
  };
}

test('while jobs wait; it processes them when its connections work again', async () => {
  const stopAdding = keepAddingJobs();
  const unmute = servers.redisProxy.muteConnections(WORKER_COMMANDS);
  const unready = await worker.untilStatus('/readyz', 503, STALLED_WITHIN_MS);
  expect(unready.faults).toEqual(['queue send: no progress']);
  expect(await readState(worker.ops, 'queue send')).toBe('unready');
  expect(await worker.probe('/livez')).toEqual({ status: 200, faults: [] });
  expect(await worker.untilStatus('/livez', 503, STALLED_WITHIN_MS)).toEqual(
    expect.objectContaining({ faults: ['queue send: no progress'] }),
  );
  expect(await readState(worker.ops, 'queue send')).toBe('dead');
  expect(worker.isRunning()).toBe(true);
  unmute();
  await stopAdding();
  await until(async () => (await producers.countDue('send')) === 0, {
    timeoutMs: RECOVERED_WITHIN_MS,
    what: 'all jobs taken',
  });
  await worker.untilStatus('/readyz', 200, RECOVERED_WITHIN_MS);
  expect((await worker.probe('/livez')).status).toBe(200);
  expect(await readState(worker.ops, 'queue send')).toBe('ok');
}, 200_000);
