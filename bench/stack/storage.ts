import { readFileSync } from 'node:fs';
import { connectDevices } from '../support/connected-devices.ts';
import type { Size, StackFixture } from '../support/fixture.ts';
import { untilSettled } from '../support/progress.ts';
import { pidOf, readPssMb } from '../support/resource-usage.ts';
import { until } from '../support/until.ts';
import type { Row } from '../table.ts';

const DEVICES: Record<Size, number> = { quick: 5_000, usual: 20_000, full: 100_000 };
const PUSHES: Record<Size, number> = { quick: 500, usual: 2_000, full: 10_000 };
const CONNECTIONS = 5_000;
const TRAFFIC_OF = ['api', 'delivery-worker', 'device-gateway'] as const;

/** Bytes on disk of one collection, after compression. */
interface Footprint {
  data: number;
  indexes: number;
}

/** Measures what devices, pushes, recipients and connections take: bytes on MongoDB's disk, in Redis and on sockets. */
export async function storage(fixture: StackFixture, size: Size): Promise<Row[]> {
  const resident = fixture.stack.dev.processes.map(
    ({ service, index, pid }): Row => ({
      what: `storage: memory of ${service}-${index} at rest`,
      value: readPssMb(pid),
      unit: 'MB',
    }),
  );
  const devices = DEVICES[size];
  let tokens: string[] = [];
  const perDevice = await measureGrowth(fixture, 'devices', devices, async () => {
    tokens = await fixture.audience.register(devices);
  });
  let topic = '';
  const perSubscription = await measureGrowth(fixture, 'subscriptions', devices, async () => {
    topic = await fixture.audience.subscribe('storage', tokens);
  });
  return [
    ...resident,
    ...perDevice,
    ...perSubscription,
    ...(await measureTopicPush(fixture, topic, devices)),
    ...(await measureSinglePushes(fixture, tokens.slice(0, PUSHES[size]))),
    ...(await measureConnections(fixture)),
  ];
}

/** Measures a push to offline subscribers: their part of a batch, and their inbox rows. */
async function measureTopicPush(
  fixture: StackFixture,
  topic: string,
  devices: number,
): Promise<Row[]> {
  const batchesBefore = await readFootprint(fixture, 'batches');
  const rows = await measureGrowth(fixture, 'inbox', devices, async () => {
    await untilSettled(fixture.mongo, await fixture.push(topic), 20);
  });
  return [
    ...toRows('batches', devices, batchesBefore, await readFootprint(fixture, 'batches')),
    ...rows,
  ];
}

/** Measures pushes to one offline device each: the document, and the bytes that each service reads and writes. */
async function measureSinglePushes(
  fixture: StackFixture,
  tokens: readonly string[],
): Promise<Row[]> {
  const before = readTraffic(fixture);
  const rows = await measureGrowth(fixture, 'pushes', tokens.length, async () => {
    await Promise.all(tokens.map((token) => fixture.push(token)));
    await fixture.untilIdle();
  });
  const after = readTraffic(fixture);
  const traffic = TRAFFIC_OF.map(
    (service, index): Row => ({
      what: `storage: bytes that ${service} reads and writes for a push to an offline device`,
      value: ((after[index] ?? 0) - (before[index] ?? 0)) / tokens.length,
      unit: 'bytes',
    }),
  );
  return [...rows, ...traffic];
}

/** Measures Redis's memory for connected devices. */
async function measureConnections(fixture: StackFixture): Promise<Row[]> {
  const before = await readRedisBytes(fixture);
  const devices = await connectDevices(fixture, CONNECTIONS);
  await until('the connects to be recorded', () => hasNoPresenceJobs(fixture));
  const growth = (await readRedisBytes(fixture)) - before;
  const entry = Number(await fixture.redis.memory('USAGE', `p:${devices.tokens[0]}`));
  devices.close();
  return [
    {
      what: "storage: Redis's memory for a connection",
      value: growth / CONNECTIONS,
      unit: 'bytes',
    },
    { what: 'storage: of it, the presence entry', value: entry, unit: 'bytes' },
  ];
}

async function measureGrowth(
  fixture: StackFixture,
  collection: string,
  count: number,
  grow: () => Promise<unknown>,
): Promise<Row[]> {
  const before = await readFootprint(fixture, collection);
  await grow();
  return toRows(collection, count, before, await readFootprint(fixture, collection));
}

function toRows(collection: string, count: number, before: Footprint, after: Footprint): Row[] {
  const name = `storage: ${collection}, bytes on disk of each`;
  return [
    { what: `${name}: data`, value: (after.data - before.data) / count, unit: 'bytes' },
    { what: `${name}: indexes`, value: (after.indexes - before.indexes) / count, unit: 'bytes' },
  ];
}

/** Reads the size after a checkpoint; before it, a file holds only a part of its data. */
async function readFootprint({ mongo }: StackFixture, collection: string): Promise<Footprint> {
  await mongo.admin().command({ fsync: 1 });
  const [stats] = await mongo
    .collection(collection)
    .aggregate<{ storageStats: { storageSize: number; totalIndexSize: number } }>([
      { $collStats: { storageStats: {} } },
    ])
    .toArray();
  return {
    data: stats?.storageStats.storageSize ?? 0,
    indexes: stats?.storageStats.totalIndexSize ?? 0,
  };
}

/** Jobs that record connects take memory only for a moment. */
async function hasNoPresenceJobs({ redis }: StackFixture): Promise<boolean> {
  const jobs = await Promise.all(
    ['wait', 'active'].map((state) => redis.llen(`bull:presence:${state}`)),
  );
  return jobs.every((count) => count === 0);
}

async function readRedisBytes({ redis }: StackFixture): Promise<number> {
  return Number(/^used_memory:(\d+)/m.exec(await redis.info('memory'))?.[1]);
}

/** Reads the bytes that each service has read and written: sockets, and its log. */
function readTraffic({ stack }: StackFixture): number[] {
  return TRAFFIC_OF.map((service) => {
    const io = readFileSync(`/proc/${pidOf(stack, service)}/io`, 'utf8');
    return [...io.matchAll(/^[rw]char: (\d+)$/gm)].reduce((sum, [, n]) => sum + Number(n), 0);
  });
}
