import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { newDeviceToken } from '../../packages/core/src/ids.ts';
import { insertDevices } from '../support/faults/device-pool.ts';
import { readPeakOf } from '../support/faults/peak-memory.ts';
import { type SentPush, sendPush, untilOutcomes } from '../support/faults/pushes.ts';
import { openServiceSet, type ServiceSet } from '../support/faults/service-set.ts';
import { type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { until } from '../support/until.ts';

const OFFLINE = 20_000;
const CONNECTED = 50;
/** Sent at once, so that the batches of all are in progress together. */
const PUSHES = 3;
/** The largest payload that the API accepts, but for the rest of its JSON. */
const TEXT = 'x'.repeat(4_000);
/** Devices that connect at once, and the pushes that wait for each. */
const REPLAYED = { devices: 200, pushes: 50 };
const CONTAINER_MB = 256;
/** V8's heap in such a container, as the image sets it. */
const NODE_OPTIONS = '--max-old-space-size=141 --max-semi-space-size=16';
const SMALL = ['delivery-worker', 'device-gateway'];
const POLL_OPTIONS = { timeoutMs: 90_000, everyMs: 250 };
const LIMIT_MS = 240_000;

let set: ServiceSet;
let devices: MqttDevice[] = [];
beforeAll(async () => {
  set = await openServiceSet((name) => (SMALL.includes(name) ? { NODE_OPTIONS } : {}));
});
afterAll(async () => {
  await Promise.all(devices.map((device) => device.disconnect()));
  await set?.stop();
});

async function registerDevices(count: number): Promise<MqttDevice[]> {
  const registered = await Promise.all(Array.from({ length: count }, () => newMqttDevice(set.dev)));
  devices = [...devices, ...registered];
  return registered;
}

/** The processes run since they were started, within the memory of their container. */
function expectWithinContainer(): void {
  for (const { service, isRunning, pid } of set.services) {
    if (!SMALL.includes(service)) continue;
    expect(isRunning()).toBe(true);
    const peak = readPeakOf(pid);
    process.stdout.write(`peak memory of ${service}: ${peak} MB\n`);
    expect(peak).toBeLessThan(CONTAINER_MB);
  }
}

test(
  'three pushes of 4 KB to 20,050 devices at once',
  async () => {
    const connected = await registerDevices(CONNECTED);
    await Promise.all(connected.map((device) => device.connect()));
    const offline = Array.from({ length: OFFLINE }, newDeviceToken);
    await insertDevices(set, set.mongo, offline);
    const to = [...connected.map(({ token }) => token), ...offline];
    const pushes = await Promise.all(
      Array.from({ length: PUSHES }, (_, n) => sendPush(set, to, { data: { n, TEXT } })),
    );
    for (const push of pushes)
      await untilOutcomes(set.mongo, push, { delivered: CONNECTED, inbox: OFFLINE }, POLL_OPTIONS);
    expectWithinContainer();
  },
  LIMIT_MS,
);

test(
  '200 devices connect at once, and 50 pushes of 4 KB wait for each',
  async () => {
    const waiting = await registerDevices(REPLAYED.devices);
    const tokens = waiting.map(({ token }) => token);
    const pushes: SentPush[] = [];
    for (let n = 0; n < REPLAYED.pushes; n += 1)
      pushes.push(await sendPush(set, tokens, { data: { n, TEXT } }));
    for (const push of pushes)
      await untilOutcomes(set.mongo, push, { inbox: REPLAYED.devices }, POLL_OPTIONS);
    await Promise.all(waiting.map((device) => device.connect()));
    const hasAll = ({ arrivals }: MqttDevice) => arrivals.length >= REPLAYED.pushes;
    await until(() => waiting.every(hasAll), { ...POLL_OPTIONS, what: 'all pushes' });
    for (const push of pushes)
      await untilOutcomes(set.mongo, push, { delivered: REPLAYED.devices }, POLL_OPTIONS);
    expect(waiting.flatMap(({ arrivals }) => arrivals)).toHaveLength(
      REPLAYED.devices * REPLAYED.pushes,
    );
    expectWithinContainer();
  },
  LIMIT_MS,
);
