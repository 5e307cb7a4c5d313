import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { createProducers, type Producers } from '../../packages/queue/src/producers.ts';
import { expectWithin } from '../support/lag.ts';
import { type DataServers, startDataServers } from '../support/operators/data-servers.ts';
import {
  readState,
  type ServiceName,
  type ServiceProcess,
  startService,
} from '../support/operators/service-process.ts';
import { until } from '../support/until.ts';

/** In the keys that only the connection of the ticks uses. */
const TICK_KEYS = ['tick:reconcile', 'tick:clean'];
/** Commands that only the connections of BullMQ's workers send. */
const WORKER_COMMANDS = ['bzpopmin', ':stalled-check'];
/** As long as a loop must be blocked before the process is unready. */
const UNREADY_AFTER_MS = 15_000;
/** Before a connection without responses is muted, its last claim may have been a second ago. */
const CLAIMED_MS = 1_000;
const RECOVERED_WITHIN_MS = 30_000;
/** A guard against hanging. */
const STATUS_MS = 120_000;

let servers: DataServers;
let producers: Producers;
const processes: ServiceProcess[] = [];
beforeAll(async () => {
  servers = await startDataServers();
  producers = createProducers(servers.redis, () => undefined);
});
afterEach(async () => {
  for (const one of processes.splice(0)) {
    one.kill('SIGKILL');
    await one.exited;
  }
});
afterAll(async () => {
  await producers?.close();
  await servers?.stop();
});

/** Starts a service, behind the proxy unless `env` has another Redis. */
async function start(service: ServiceName, env: Record<string, string> = {}) {
  const started = await startService(service, { ...servers.env, ...env });
  processes.push(started);
  await started.untilReady();
  return started;
}

test.each([
  ['stream reader', 'xread'],
  ['lease', '\r\ng:'],
])(
  'a gateway whose %s gets no responses, and is healthy when responses arrive again',
  async (loop, command) => {
    const gateway = await start('device-gateway');
    const unmute = servers.redisProxy.muteConnections([command]);
    const { faults } = await gateway.untilStatus('/livez', 503, STATUS_MS);
    expect(faults).toContain(`${loop}: no progress`);
    expect((await gateway.probe('/readyz')).status).toBe(503);
    expect(await readState(gateway.ops, loop)).toBe('dead');
    unmute();
    for (const path of ['/readyz', '/livez'] as const)
      await expectWithin(RECOVERED_WITHIN_MS, gateway.untilStatus(path, 200, STATUS_MS));
  },
  2 * STATUS_MS,
);

test('a scheduler whose claims get no response turns unready, and another one runs the ticks', async () => {
  const healthy = await start('scheduler', { REDIS_URL: servers.redis.url });
  const stalled = await start('scheduler');
  const mutedAt = performance.now();
  const unmute = servers.redisProxy.muteConnections(TICK_KEYS);
  const { faults } = await stalled.untilStatus('/readyz', 503, STATUS_MS);
  expect(performance.now() - mutedAt).toBeGreaterThan(UNREADY_AFTER_MS - CLAIMED_MS);
  expect(faults).toEqual(['ticks: no progress']);
  expect(await readState(stalled.ops, 'ticks')).toBe('unready');
  expect(await readState(stalled.ops, 'queue maintenance')).toBe('ok');
  expect((await healthy.probe('/readyz')).status).toBe(200);
  expect(await readState(healthy.ops, 'ticks')).toBe('ok');
  unmute();
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

test('a worker while jobs wait is unready, then dead; it processes them when its connections work again', async () => {
  const worker = await start('delivery-worker');
  const stopAdding = keepAddingJobs();
  const unmute = servers.redisProxy.muteConnections(WORKER_COMMANDS);
  const unready = await worker.untilStatus('/readyz', 503, STATUS_MS);
  expect(unready.faults).toEqual(['queue send: no progress']);
  expect(await readState(worker.ops, 'queue send')).toBe('unready');
  expect(await worker.probe('/livez')).toEqual({ status: 200, faults: [] });
  const dead = await worker.untilStatus('/livez', 503, STATUS_MS);
  expect(dead.faults).toEqual(['queue send: no progress']);
  expect(await readState(worker.ops, 'queue send')).toBe('dead');
  expect(worker.isRunning()).toBe(true);
  unmute();
  await stopAdding();
  const isEmpty = async () => (await producers.countDue('send')) === 0;
  await expectWithin(RECOVERED_WITHIN_MS, until(isEmpty, { what: 'all jobs taken' }));
  await expectWithin(RECOVERED_WITHIN_MS, worker.untilStatus('/readyz', 200, STATUS_MS));
  expect((await worker.probe('/livez')).status).toBe(200);
  expect(await readState(worker.ops, 'queue send')).toBe('ok');
}, 400_000);
