import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { sendPush, untilOutcomes } from '../support/faults/pushes.ts';
import { type ServiceSet, startServiceSet } from '../support/faults/service-set.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import { type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { type DataServers, startDataServers } from '../support/operators/data-servers.ts';
import { type ServiceProcess, startService } from '../support/operators/service-process.ts';
import { until } from '../support/until.ts';

const DEVICES = 5;
const LIMIT_MS = 120_000;

interface Outcomes {
  latency?: { count: number; max: number };
}

let servers: DataServers;
let mongo: TestMongo;
let set: ServiceSet;
let devices: MqttDevice[] = [];
let successor: ServiceProcess | undefined;
beforeAll(async () => {
  servers = await startDataServers();
  mongo = await openMongo({ mongodb: servers.env.MONGODB_URI });
  set = await startServiceSet(servers, (service) =>
    service === 'delivery-worker' ? { FAILPOINTS: 'settle:kill#1' } : {},
  );
  devices = await Promise.all(Array.from({ length: DEVICES }, () => newMqttDevice(set.dev)));
  await Promise.all(devices.map((device) => device.connect()));
});
afterAll(async () => {
  await Promise.all(devices.map((device) => device.disconnect()));
  await successor?.stop();
  await set?.stop();
  await mongo?.close();
  await servers?.stop();
});

async function readTimeMs(): Promise<number> {
  const { localTime } = await mongo.db.admin().command({ hello: 1 });
  return (localTime as Date).getTime();
}

test(
  'the time is that of the receipts, not that at which another worker took the batch over',
  async () => {
    const killed = set.services.find(({ service }) => service === 'delivery-worker');
    const push = await sendPush(
      set,
      devices.map(({ token }) => token),
    );
    await until(() => killed?.isRunning() === false, { timeoutMs: LIMIT_MS / 2 });
    const endedMs = await readTimeMs();
    successor = await startService('delivery-worker', servers.env);
    await successor.untilReady();
    await untilOutcomes(mongo, push, { delivered: DEVICES });
    // No device got it twice: the successor knows the receipts from the gateway's replies.
    expect(devices.map(({ arrivals }) => arrivals.length)).toEqual(devices.map(() => 1));
    const stored = await mongo.db
      .collection<{ _id: string; acceptedAt: Date; work: { closedAt: Date } }>('pushes')
      .findOne({ _id: push.id });
    const { json } = await set.api<Outcomes>('GET', `/pushes/${push.id}/outcomes`);
    expect(json.latency?.count).toBe(DEVICES);
    // Seconds are between both, so the clocks of Redis and MongoDB may differ.
    const lastMs = Number(stored?.acceptedAt) + (json.latency?.max ?? 0);
    expect(lastMs).toBeLessThan((endedMs + Number(stored?.work.closedAt)) / 2);
  },
  LIMIT_MS,
);
