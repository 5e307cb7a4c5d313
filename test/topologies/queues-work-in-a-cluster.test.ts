import { once } from 'node:events';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createRedis } from '../../packages/presence/src/redis.ts';
import { jobSchemas } from '../../packages/queue/src/jobs.ts';
import { createProducers, type Producers } from '../../packages/queue/src/producers.ts';
import { createUnservedQueues } from '../../packages/queue/src/unserved-queues.ts';
import { createWorker } from '../../packages/queue/src/workers.ts';
import { type RedisCluster, startRedisCluster } from '../support/topologies/redis-cluster.ts';
import { readInfoField } from '../support/topologies/redis-node.ts';
import { until } from '../support/until.ts';

const SOON = { timeoutMs: 30_000 };

let cluster: RedisCluster;
let producers: Producers;
const errors: Error[] = [];
const onError = (error: Error) => void errors.push(error);

beforeAll(async () => {
  cluster = await startRedisCluster({ replicas: 0 });
  producers = createProducers(cluster, onError);
  await until(async () => (await producers.countDue('send')) === 0, SOON);
  errors.length = 0;
});
afterAll(async () => {
  await producers?.close();
  await cluster?.remove();
});

test('jobs of all queues are counted, taken, and added again once for a due time', async () => {
  const at = new Date();
  const pushes = Array.from({ length: 50 }, (_, n) => `p${n}`);
  const resend = () => Promise.all(pushes.map((id) => producers.resend({ app: 'a', id, at })));
  await resend();
  await resend();
  await producers.checkCompletion(['p1']);
  expect(await producers.countDue('send')).toBe(pushes.length);
  expect(await producers.countDue('webhook')).toBe(0);
  const unservedQueues = createUnservedQueues(cluster, onError);
  const ages = await until(() => unservedQueues.readAges(), SOON);
  unservedQueues.close();
  expect(Object.keys(ages).length).toBeGreaterThan(1);

  const taken: string[] = [];
  const record = async (job: unknown) => void taken.push(JSON.stringify(job));
  const settings = { redis: cluster, onError };
  const workers = [
    createWorker(settings, 'send', jobSchemas.send, record, 1),
    createWorker(settings, 'finish', jobSchemas.finish, record, 1),
  ];
  await until(() => taken.length === pushes.length + 1, SOON);
  expect(taken.sort()).toEqual([
    ...pushes.map((id) => JSON.stringify({ app: 'a', pushes: [id] })).sort(),
    JSON.stringify({ pushes: ['p1'] }),
  ]);
  for (const worker of workers) await worker.stop();
  expect(errors).toEqual([]);
});

test('a client that connects while the cluster is down waits until it serves again', async () => {
  const [first, ...others] = cluster.nodes;
  const redis = createRedis(cluster, 'worker', onError);
  await until(() => redis.status === 'ready', SOON);
  // A client that already reconnects would never emit `end`.
  const ended = once(redis, 'end');
  redis.disconnect();
  await ended;
  for (const node of others) await node.kill();
  const readState = async () =>
    readInfoField(String(await first?.run((node) => node.cluster('INFO'))), 'cluster_state');
  await until(async () => (await readState()) === 'fail', SOON);
  const connected = redis.connect();
  // The first attempt fails, and the library makes others.
  await until(() => redis.status === 'reconnecting', SOON);
  await cluster.startAll();
  await connected;
  expect(redis.status).toBe('ready');
  redis.disconnect();
});
