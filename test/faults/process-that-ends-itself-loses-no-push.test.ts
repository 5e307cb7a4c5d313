import { afterEach, expect, test } from '@jest/globals';
import { newDeviceToken } from '../../packages/core/src/ids.ts';
import { insertDevices } from '../support/faults/device-pool.ts';
import { pushStatusOf, type SentPush, sendPush, untilOutcomes } from '../support/faults/pushes.ts';
import { openServiceSet, type ServiceSet, untilEnded } from '../support/faults/service-set.ts';
import { createMqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import type { ServiceName, ServiceProcess } from '../support/operators/service-process.ts';
import { until } from '../support/until.ts';

/** Two batches. */
const RECIPIENTS = 2_000;
/** V8's heap in a container of 256 MB, as the image sets it. */
const NODE_OPTIONS = '--max-old-space-size=141 --max-semi-space-size=16';
/** Longer than a worker keeps a claim that it doesn't renew, several times. */
const BLOCKED_MS = 40_000;
const LIMIT_MS = 180_000;

let set: ServiceSet;
afterEach(() => set?.stop());

/** Starts all services, one of them with a failpoint and a small heap. Returns that one. */
async function startWithFault(name: ServiceName, failpoints: string): Promise<ServiceProcess> {
  const faulty = { FAILPOINTS: failpoints, NODE_OPTIONS };
  set = await openServiceSet((one) => (one === name ? faulty : {}));
  return set.find(name);
}

/** Sends to devices that are offline: the push is pending in each inbox. */
async function pushToOffline(): Promise<SentPush> {
  const tokens = Array.from({ length: RECIPIENTS }, newDeviceToken);
  await insertDevices(set, set.mongo, tokens);
  return sendPush(set, tokens);
}

const countRows = ({ id }: SentPush) =>
  set.mongo.db.collection('inbox').countDocuments({ push: id });

test.each([
  ['runs out of memory', 'rows:fill#1', 'heap out of memory'],
  ['does not handle a rejection', 'rows:reject#1', 'stopping after an unexpected error'],
])(
  'a worker that %s logs it, and another one takes its batches over',
  async (_, failpoints, text) => {
    const faulty = await startWithFault('delivery-worker', failpoints);
    const push = await pushToOffline();
    await untilEnded(faulty, failpoints);
    expect(faulty.output()).toContain(text);
    expect((await pushStatusOf(set.mongo, push)).outcomes).not.toEqual({ inbox: RECIPIENTS });
    await set.start('delivery-worker');
    await untilOutcomes(set.mongo, push, { inbox: RECIPIENTS });
    expect(await countRows(push)).toBe(RECIPIENTS);
  },
  LIMIT_MS,
);

test(
  'a worker whose event loop is blocked for 40 s has lost its batches, and writes nothing afterwards',
  async () => {
    const faulty = await startWithFault('delivery-worker', `rows:block=${BLOCKED_MS}#1`);
    const push = await pushToOffline();
    const claimed = { push: push.id, 'work.claim': { $exists: true } };
    await until(async () => (await set.mongo.db.collection('batches').countDocuments(claimed)) > 0);
    await set.start('delivery-worker');
    await untilOutcomes(set.mongo, push, { inbox: RECIPIENTS });
    // Stands for devices that have got it: a row written now would be sent to them again.
    const { deletedCount } = await set.mongo.db.collection('inbox').deleteMany({ push: push.id });
    expect(deletedCount).toBe(RECIPIENTS);
    const responds = async () => (await faulty.probe('/livez')).status === 200;
    await until(responds, { timeoutMs: 3 * BLOCKED_MS, everyMs: 500 });
    // It continues with other batches.
    const later = await pushToOffline();
    await untilOutcomes(set.mongo, later, { inbox: RECIPIENTS });
    expect(await countRows(push)).toBe(0);
  },
  LIMIT_MS,
);

test(
  'a gateway that runs out of memory over a receipt: the device gets the push again, and it counts once',
  async () => {
    const faulty = await startWithFault('device-gateway', 'receipt:fill#1');
    const device = await newMqttDevice(set.dev);
    const push = await sendPush(set, device.token);
    await untilOutcomes(set.mongo, push, { inbox: 1 });
    await device.connect();
    await device.waitFor(1);
    await untilEnded(faulty, 'receipt:fill#1');
    expect(await countRows(push)).toBe(1);
    const successor = await set.start('device-gateway');
    await successor.untilReady();
    const again = createMqttDevice({ ...device, url: `mqtt://127.0.0.1:${successor.port}` });
    await again.connect();
    await again.waitFor(1);
    await untilOutcomes(set.mongo, push, { delivered: 1 });
    expect([...device.arrivals, ...again.arrivals].map(({ payload }) => payload)).toEqual([
      push.payload,
      push.payload,
    ]);
    await again.disconnect();
    await device.disconnect();
  },
  LIMIT_MS,
);
