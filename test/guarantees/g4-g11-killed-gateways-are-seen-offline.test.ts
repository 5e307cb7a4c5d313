import { expect, test } from '@jest/globals';
import { keepConnected } from '../support/faults/device-pool.ts';
import { MAX_DUPLICATES_PER_DEVICE, untilAllArrived } from '../support/faults/expect-complete.ts';
import { sendPush } from '../support/faults/pushes.ts';
import { lendTo } from '../support/guarantees/lend-to.ts';
import { createLagRecord } from '../support/observer-lag.ts';
import { useKillableStack } from '../support/shared-stack.ts';
import type { Stack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const GATEWAY = 'device-gateway';
/** Guarantee G11. */
const SEEN_OFFLINE_MS = 15_000;
const PUSHES = 40;

let stack: Stack;
const fleet = lendTo(
  () => useKillableStack(),
  (lent) => {
    stack = lent;
  },
);

/** Kills both gateways. Returns what waits until both are back. */
function killGateways(): () => Promise<unknown> {
  const killed = [0, 1].map((index) => stack.kill(GATEWAY, 'SIGKILL', index));
  return () => Promise.all(killed.map((pid, index) => stack.waitForRestart(GATEWAY, pid, index)));
}

async function isOnline(token: string): Promise<boolean | undefined> {
  const { json } = await stack.api<Presence>('POST', '/devices/presence', { tokens: [token] });
  return json.presence[0]?.online;
}

interface Presence {
  presence: { online: boolean }[];
}

test('its devices are shown offline within 15 s, and online once they are back', async () => {
  const device = await fleet.online();
  await until(async () => await isOnline(device.token));
  const untilRestarted = killGateways();
  const lags = createLagRecord();
  const killedAt = performance.now();
  await lags.during(until(async () => !(await isOnline(device.token))));
  const tookMs = performance.now() - killedAt;
  process.stdout.write(`shown offline after ${Math.round(tookMs)} ms\n`);
  expect(tookMs).toBeLessThanOrEqual(SEEN_OFFLINE_MS + 3 * lags.maxMs());
  await untilRestarted();
  await device.connect();
  await until(async () => await isOnline(device.token));
});

test('a device gets at most 16 pushes again, and misses none', async () => {
  const device = await fleet.online();
  device.holdReceipts();
  const sent = await Promise.all(
    Array.from({ length: PUSHES }, () => sendPush(stack, device.token)),
  );
  await device.waitFor(MAX_DUPLICATES_PER_DEVICE);
  const untilRestarted = killGateways();
  device.releaseReceipts();
  await untilRestarted();
  const connection = keepConnected([device]);
  await untilAllArrived([device], sent);
  await untilAllArrived([device], [await sendPush(stack, device.token)]);
  await connection.stop();
  const repeats = device.arrivals.length - PUSHES - 1;
  process.stdout.write(`killed gateway: ${repeats} pushes arrived again\n`);
  expect(repeats).toBeLessThanOrEqual(MAX_DUPLICATES_PER_DEVICE);
});
