import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { startDeliveryWorker } from '../support/delivery-worker.ts';
import { connectUnacknowledging, keepConnected } from '../support/faults/device-pool.ts';
import { countArrivals, expectComplete } from '../support/faults/expect-complete.ts';
import { type Fixture, openFixture } from '../support/faults/fixture.ts';
import {
  expectPartlyClosed,
  type SentPush,
  sendPush,
  untilOutcomes,
  untilPartlyClosed,
} from '../support/faults/pushes.ts';
import { type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { until } from '../support/until.ts';

/** So large that a process can be killed in the middle of a push. */
const POOL_SIZE = { registered: 30_000, real: 60 };
/** Devices that keep a few batches open by delaying their receipts. */
const UNACKNOWLEDGING = 6;
/** Three batches: enough for one that stays open and others that close. */
const SUBSET_SIZE = 3_000;
const WORKER = 'delivery-worker';
const GATEWAY = 'device-gateway';
const INBOX_SIZE = 50;
/** Pushes without a receipt that a device may have at a time. */
const WINDOW = 16;
/** Guarantee G11: a crashed gateway's devices are seen offline so soon. */
const CRASH_SEEN_MS = 15_000;
/** Three leases of a worker. */
const WORKER_FROZEN_MS = 18_000;
const GATEWAY_FROZEN_MS = 10_000;

let fixture: Fixture;
let holders: MqttDevice[] = [];
beforeAll(async () => {
  fixture = await openFixture(POOL_SIZE);
});
afterEach(() => releaseReceipts());
afterAll(() => fixture?.close());

/** Makes devices delay their receipts until they are released. */
function holdReceipts(count = UNACKNOWLEDGING): void {
  holders = fixture.pool.devices.slice(0, count);
  for (const device of holders) device.holdReceipts();
}

function releaseReceipts(): void {
  for (const device of holders) device.releaseReceipts();
}

/** Expects that a push is still in progress after a fault, and complete once the devices acknowledge it. */
async function expectCompleteAfter(label: string, push: SentPush): Promise<void> {
  await expectPartlyClosed(fixture.mongo, push);
  releaseReceipts();
  await expectComplete(fixture, push, label);
}

test.each([
  ['a worker', WORKER, 'in the middle of a page'],
  ['a gateway', GATEWAY, 'after it has sent a push and before it has replied'],
])('%s is killed: %s %s', async (label, service) => {
  const { stack, mongo, pool } = fixture;
  holdReceipts();
  const push = await sendPush(stack, pool.tokens);
  await until(() => holders.some((one) => countArrivals(one, push) > 0), { everyMs: 2 });
  await untilPartlyClosed(mongo, push);
  stack.kill(service, 'SIGKILL');
  await expectCompleteAfter(`${label} killed midway`, push);
});

test('a worker is killed twice on the same batch', async () => {
  const { stack, mongo, pool } = fixture;
  holdReceipts(1);
  const push = await sendPush(stack, pool.tokens.slice(0, SUBSET_SIZE));
  await until(() => holders.every((one) => countArrivals(one, push) > 0), { everyMs: 2 });
  await untilPartlyClosed(mongo, push);
  const killWorker = () => stack.waitForRestart(WORKER, stack.kill(WORKER, 'SIGKILL'));
  await killWorker();
  const open = { push: push.id, 'work.state': 'ready', 'work.tries': 2 };
  const claimedAgain = { ...open, 'work.claim': { $exists: true } };
  await until(() => mongo.db.collection('batches').findOne(claimedAgain), {
    ...{ timeoutMs: 60_000, everyMs: 5 },
  });
  const restarted = killWorker();
  await expectPartlyClosed(mongo, push);
  await restarted;
  releaseReceipts();
  await expectComplete(fixture, push, 'worker killed twice');
});

test.each([WORKER, GATEWAY])(
  'a %s that is stopped by a signal in the middle of a fan-out releases its batches: no device has the push twice',
  async (service) => {
    const { stack, mongo, pool } = fixture;
    const holder = await connectUnacknowledging(stack);
    const push = await sendPush(stack, [...pool.tokens, holder.token]);
    await untilPartlyClosed(mongo, push);
    const old = stack.kill(service, 'SIGTERM');
    await expectPartlyClosed(mongo, push);
    holder.cut();
    await stack.waitForRestart(service, old);
    await expectComplete(fixture, push, `${service} stopped`);
    expect(pool.devices.filter((device) => countArrivals(device, push) > 1)).toEqual([]);
  },
);

test('the batches of a worker that is frozen for three leases are taken over', async () => {
  const { stack, mongo, pool } = fixture;
  holdReceipts(pool.devices.length);
  const push = await sendPush(stack, pool.tokens);
  await untilPartlyClosed(mongo, push);
  stack.kill(WORKER, 'SIGSTOP');
  const frozenAt = performance.now();
  // The other one begins now, so that the frozen one has claimed the open batches.
  const other = await startDeliveryWorker(stack, {});
  try {
    await expectPartlyClosed(mongo, push);
    releaseReceipts();
    const takenOver = { push: push.id, 'work.tries': { $gt: 1 } };
    await until(() => mongo.db.collection('batches').findOne(takenOver), { timeoutMs: 60_000 });
    await sleep(WORKER_FROZEN_MS - (performance.now() - frozenAt));
    stack.kill(WORKER, 'SIGCONT');
    await expectComplete(fixture, push, 'worker frozen');
  } finally {
    stack.kill(WORKER, 'SIGCONT');
    await other.stop();
  }
});

test('a gateway that was frozen continues where it was', async () => {
  const { stack, mongo, pool } = fixture;
  holdReceipts();
  const push = await sendPush(stack, pool.tokens);
  await untilPartlyClosed(mongo, push);
  stack.kill(GATEWAY, 'SIGSTOP');
  await expectPartlyClosed(mongo, push);
  releaseReceipts();
  await sleep(GATEWAY_FROZEN_MS);
  stack.kill(GATEWAY, 'SIGCONT');
  await expectComplete(fixture, push, 'gateway frozen');
});

test('a gateway is killed in the middle of an inbox, of which at most one window is sent twice', async () => {
  const { stack, mongo } = fixture;
  const device = await newMqttDevice(stack.dev);
  const pushes = [];
  for (let n = 0; n < INBOX_SIZE; n += 1) pushes.push(await sendPush(stack, device.token));
  for (const push of pushes) await untilOutcomes(mongo, push, { inbox: 1 });
  device.holdReceipts();
  await device.connect();
  await device.waitFor(WINDOW);
  stack.kill(GATEWAY, 'SIGKILL');
  device.releaseReceipts();
  const connection = keepConnected([device]);
  for (const push of pushes) await untilOutcomes(mongo, push, { delivered: 1 });
  expect(device.arrivals.length - INBOX_SIZE).toBeLessThanOrEqual(WINDOW);
  await connection.stop();
});

test('the devices of a killed gateway are offline by the end of its lease', async () => {
  const { stack } = fixture;
  const device = await newMqttDevice(stack.dev);
  const isOnline = async () => {
    const { json } = await stack.api<{ presence: { online: boolean }[] }>(
      'POST',
      '/devices/presence',
      { tokens: [device.token] },
    );
    return json.presence[0]?.online;
  };
  await device.connect();
  await until(isOnline);
  const restarted = stack.waitForRestart(GATEWAY, stack.kill(GATEWAY, 'SIGKILL'));
  await until(async () => !(await isOnline()), { timeoutMs: CRASH_SEEN_MS });
  await restarted;
  await device.connect();
  await until(isOnline);
  await device.disconnect();
});
