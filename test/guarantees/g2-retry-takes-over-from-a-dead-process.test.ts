import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createDevicePool, type DevicePool } from '../support/faults/device-pool.ts';
import {
  countArrivals,
  untilAllArrived,
  untilAnotherArrived,
} from '../support/faults/expect-complete.ts';
import type { SentPush } from '../support/faults/pushes.ts';
import {
  type StackBehindProxy,
  startStackBehindProxy,
} from '../support/faults/stack-behind-proxy.ts';
import {
  acceptPartly,
  createKeyedRequest,
  retryUntilAccepted,
} from '../support/guarantees/partial-accept.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { until } from '../support/until.ts';

const ACCEPTED_WITHIN_MS = 5_000;
const FROZEN_MS = 8_000;

let fixture: StackBehindProxy;
let mongo: TestMongo;
let pool: DevicePool;
beforeAll(async () => {
  fixture = await startStackBehindProxy({ apis: 2 });
  mongo = await openMongo(fixture.stack.dev);
  pool = await createDevicePool(fixture.stack, mongo, { registered: 5_000, real: 3 });
});
afterAll(async () => {
  await Promise.all((pool?.devices ?? []).map((device) => device.disconnect()));
  await mongo?.close();
  await fixture?.stop();
});

/** Every real device has it once, and no other copy is in flight: another push arrived after it. */
async function expectArrivedOnce(push: SentPush): Promise<void> {
  const { devices } = pool;
  await untilAllArrived(devices, [push]);
  await untilAnotherArrived(fixture.stack, devices);
  expect(devices.map((device) => countArrivals(device, push))).toEqual(devices.map(() => 1));
}

const batchesOf = (push: string) => mongo.db.collection('batches').countDocuments({ push });

async function killOwner(): Promise<() => Promise<number>> {
  const old = fixture.stack.kill('api', 'SIGKILL');
  return () => fixture.stack.waitForRestart('api', old);
}

test('its owner was killed: a retry gets Retry-After of one second each time, and is accepted within five', async () => {
  const request = createKeyedRequest(fixture, pool.tokens);
  const { id, response } = await acceptPartly(fixture, mongo, request);
  const restarted = await killOwner();
  const { push, tookMs, rejections: refusals } = await retryUntilAccepted(request);
  process.stdout.write(`retry accepted after ${Math.round(tookMs)} ms\n`);
  expect(tookMs).toBeLessThan(ACCEPTED_WITHIN_MS);
  expect(refusals[0]).toMatchObject({ status: 503, retryAfter: '1' });
  expect([(await response).status, push.id === id]).toEqual([0, false]);
  await expectArrivedOnce(push);
  await restarted();
});

test('its owner was frozen: its late response is no success, and its late batches are removed', async () => {
  const request = createKeyedRequest(fixture, pool.tokens);
  const { id, heldWrite: held, response } = await acceptPartly(fixture, mongo, request);
  fixture.stack.kill('api', 'SIGSTOP');
  const frozenAt = performance.now();
  const { push } = await retryUntilAccepted(request);
  await sleep(FROZEN_MS - (performance.now() - frozenAt));
  held.release();
  await until(async () => (await batchesOf(id)) > 0);
  fixture.stack.kill('api', 'SIGCONT');
  expect((await response).status).toBeGreaterThanOrEqual(500);
  await until(async () => (await batchesOf(id)) === 0);
  expect((await request.send()).text).toContain(push.id);
  await expectArrivedOnce(push);
});

test('several retries at once are one push', async () => {
  const request = createKeyedRequest(fixture, pool.tokens);
  await acceptPartly(fixture, mongo, request);
  const restarted = await killOwner();
  const accepted: string[] = [];
  const allAccepted = async () => {
    const responses = await Promise.all(Array.from({ length: 4 }, () => request.send()));
    const some = responses.filter(({ status }) => status === 200);
    accepted.push(...some.map(({ text }) => text));
    return some.length === responses.length;
  };
  await until(allAccepted, { timeoutMs: 90_000, everyMs: 100 });
  expect(new Set(accepted).size).toBe(1);
  const { id } = JSON.parse(accepted[0] ?? '') as { id: string };
  await expectArrivedOnce({ id, payload: request.payload, devices: request.devices });
  await restarted();
});

test('once the lease is over the key is free for another body too', async () => {
  const request = createKeyedRequest(fixture, pool.tokens);
  await acceptPartly(fixture, mongo, request);
  const restarted = await killOwner();
  const other = JSON.stringify({ to: pool.devices[0]?.token, data: { n: 1 } });
  expect((await request.send(other)).status).toBe(400);
  await until(async () => (await request.send(other)).status === 200, { timeoutMs: 90_000 });
  expect((await request.send()).status).toBe(400);
  await restarted();
});
