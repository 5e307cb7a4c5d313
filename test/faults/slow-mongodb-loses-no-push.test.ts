import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createDevicePool, type DevicePool } from '../support/faults/device-pool.ts';
import { listUnreadyDuring } from '../support/faults/list-unready.ts';
import {
  type StackBehindProxy,
  startStackBehindProxy,
} from '../support/faults/stack-behind-proxy.ts';
import { expectWholeOrAbsent, sendDuring } from '../support/faults/steady-pushes.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';

/** Of each command of every service. With the second one no read of a push's state is recent enough to send it (G8). */
const DELAYS_MS = { sent: 300, heldBack: 500 };
const LOAD = { perSecond: 5, perPush: 3 };
const PUSHES = 40;

let fixture: StackBehindProxy;
let mongo: TestMongo;
let pool: DevicePool;
beforeAll(async () => {
  fixture = await startStackBehindProxy();
  mongo = await openMongo(fixture.stack.dev);
  pool = await createDevicePool(fixture.stack, mongo, { registered: 10, real: 10 });
}, 120_000);
afterAll(async () => {
  await Promise.all((pool?.devices ?? []).map((device) => device.disconnect()));
  await mongo?.close();
  await fixture?.stop();
});

/** Sends pushes while MongoDB is slow. All must be accepted, and no process may be unready until all have arrived. */
async function expectAllArrive(delayMs: number, onAccepted: () => void): Promise<void> {
  const { stack, proxy } = fixture;
  proxy.delayRequests(delayMs);
  const unready = await listUnreadyDuring(stack.dev.processes, async () => {
    const sent = await sendDuring(stack, pool.devices, LOAD, (load) => load.untilAccepted(PUSHES));
    expect(sent.filter(({ isAccepted }) => !isAccepted)).toEqual([]);
    onAccepted();
    await expectWholeOrAbsent(`MongoDB slower by ${delayMs} ms`, { stack, mongo, pool }, sent);
  }).finally(proxy.restore);
  expect(unready).toEqual([]);
}

test('by 300 ms a command: pushes are accepted and delivered meanwhile', async () => {
  await expectAllArrive(DELAYS_MS.sent, () => undefined);
}, 180_000);

test('by 500 ms a command: pushes are accepted meanwhile, and delivered when it is faster', async () => {
  await expectAllArrive(DELAYS_MS.heldBack, fixture.proxy.restore);
}, 180_000);
