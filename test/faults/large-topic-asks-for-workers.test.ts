import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { startDeliveryWorker } from '../support/delivery-worker.ts';
import { send } from '../support/end-to-end/pushes.ts';
import { createDevicePool } from '../support/faults/device-pool.ts';
import { subscribePool } from '../support/faults/subscribe-pool.ts';
import { readMetric } from '../support/metric-values.ts';
import { openMongo, type TestMongo } from '../support/mongo.ts';
import type { ServiceProcess } from '../support/operators/service-process.ts';
import { desiredWorkers, TARGET_PER_WORKER } from '../support/scaler.ts';
import { findProcess } from '../support/stack/dev-file.ts';
import { type Stack, startStack } from '../support/stack.ts';
import { until } from '../support/until.ts';

const SUBSCRIBERS = 200_000;
const TOPIC = 'everybody';
const SCHEDULERS = 2;
const BOUNDS = { targetPerWorker: TARGET_PER_WORKER, min: 1, max: 10 };
/** For the 64 batches that a push has at once. */
const MAX_REQUESTED = 3;
/** Work of several minutes would mean that the push does not progress. */
const DELIVERY_MS = 240_000;

let stack: Stack;
let mongo: TestMongo;
/** Workers that the scaler has requested. */
const workers: ServiceProcess[] = [];
const others: ServiceProcess[] = [];
beforeAll(async () => {
  stack = await startStack({
    deliveryWorkers: 0,
    schedulers: SCHEDULERS,
    env: { CARILLON_ADDRESS_LIMITS: 'off' },
  });
  mongo = await openMongo(stack.dev);
});
afterAll(async () => {
  await Promise.all([...workers, ...others].map((worker) => worker.stop()));
  await mongo?.close();
  await stack?.stop();
});

/** Starts workers until there are so many. Each delivers one batch at a time, so that a topic is read faster than that. */
async function scaleTo(count: number): Promise<void> {
  while (workers.length < count) {
    workers.push(await startDeliveryWorker(stack, { CONCURRENCY: '1' }));
  }
}

/** Reads the metric of an autoscaler: the value of each scheduler. */
async function readFigures(current: number) {
  const read = (name: string) =>
    Promise.all(
      Array.from({ length: SCHEDULERS }, async (_, index) => {
        const { ops } = findProcess(stack.dev, 'scheduler', index);
        return (await readMetric(ops, name)).mqtt;
      }),
    );
  const pending = await read('carillon_pending_batches');
  const oldest = await read('carillon_oldest_pending_batch_seconds');
  return {
    pending,
    oldestSeconds: Math.max(...oldest.map((age) => age ?? 0)),
    workers: desiredWorkers(pending, BOUNDS, current),
  };
}

test(
  'pending batches of 200,000 offline subscribers rise and fall to 0, and so do the requested workers',
  async () => {
    // It resolves the topic and delivers nothing, so that the batches pile up as far as one push may have them released.
    others.push(await startDeliveryWorker(stack, { QUEUES: 'send' }));
    const pool = await createDevicePool(stack, mongo, { registered: SUBSCRIBERS, real: 0 });
    await subscribePool({ stack, mongo, pool }, TOPIC);
    expect(await readFigures(1)).toEqual({ pending: [0, 0], oldestSeconds: 0, workers: 1 });
    const sentAt = performance.now();
    const { id } = await send(stack, `/topics/${TOPIC}`, {});
    const figures: Awaited<ReturnType<typeof readFigures>>[] = [];
    const hasPeaked = async () => {
      figures.push(await readFigures(1));
      return figures.at(-1)?.workers === MAX_REQUESTED;
    };
    await until(hasPeaked, { timeoutMs: DELIVERY_MS, everyMs: 1_000 });
    const isDone = async () => {
      figures.push(await readFigures(figures.at(-1)?.workers ?? 1));
      await scaleTo(figures.at(-1)?.workers ?? 1);
      const batches = mongo.db.collection('batches');
      const closed = await batches.countDocuments({ push: id as never, 'work.state': 'closed' });
      return closed === SUBSCRIBERS / 1_000 && figures.at(-1)?.pending.every((n) => n === 0);
    };
    await until(isDone, { timeoutMs: DELIVERY_MS, everyMs: 1_000, what: 'a push without batches' });
    const elapsedSeconds = (performance.now() - sentAt) / 1_000;
    const requested = figures.map(({ workers }) => workers);
    expect(Math.max(...requested)).toBe(MAX_REQUESTED);
    expect(requested.at(-1)).toBe(1);
    for (const { oldestSeconds, pending } of figures) {
      expect(oldestSeconds).toBeLessThan(elapsedSeconds);
      for (const n of pending) expect(n).toBeLessThanOrEqual(64);
    }
    expect(await mongo.db.collection('inbox').countDocuments({ push: id })).toBe(SUBSCRIBERS);
  },
  DELIVERY_MS + 120_000,
);

test(
  'with OPEN_BATCHES_PER_PUSH of 120 the same topic requests five workers and no more',
  async () => {
    await Promise.all([...workers, ...others].map((worker) => worker.stop()));
    const env = { QUEUES: 'send', OPEN_BATCHES_PER_PUSH: '120' };
    others.push(await startDeliveryWorker(stack, env));
    const { id } = await send(stack, `/topics/${TOPIC}`, {});
    const isFull = async () => {
      const { pending } = await readFigures(1);
      for (const n of pending) expect(n).toBeLessThanOrEqual(120);
      return pending.every((n) => n === 120);
    };
    await until(isFull, { timeoutMs: DELIVERY_MS, everyMs: 1_000 });
    expect((await readFigures(1)).workers).toBe(5);
    expect(await mongo.db.collection('batches').countDocuments({ push: id as never })).toBe(120);
  },
  DELIVERY_MS,
);

test('the scaler goes by the highest value of all schedulers, within bounds, and keeps its number without one', () => {
  const bounds = { targetPerWorker: 24, min: 1, max: 10 };
  expect(desiredWorkers([undefined, 49, 20], bounds, 5)).toBe(3);
  expect(desiredWorkers([0, 0], bounds, 5)).toBe(1);
  expect(desiredWorkers([100_000], bounds, 5)).toBe(10);
  expect(desiredWorkers([undefined, undefined], bounds, 5)).toBe(5);
});
