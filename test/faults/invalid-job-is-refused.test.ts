import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Redis } from 'ioredis';
import {
  deliverJobId,
  QUEUE_NAMES,
  type QueueName,
  sendJobId,
} from '../../packages/queue/src/jobs.ts';
import {
  insertPush,
  newTokens,
  type StoreUnderTest,
} from '../../packages/store/test/store-under-test.ts';
import { type JobQueues, openJobQueues } from '../support/faults/job-queues.ts';
import { openServiceSet, type ServiceSet } from '../support/faults/service-set.ts';
import { until } from '../support/until.ts';

/** A text that no log may have. */
const SECRET = 'payload of a customer';
const HUGE = `${SECRET} `.repeat(20_000);
const RECIPIENTS = 40;
const LONGEST_LINE = 10_000;
const LIMIT_MS = 120_000;

/** Jobs of other releases, and data that is no job at all. */
const INVALID_DATA: unknown[] = [
  {},
  null,
  17,
  SECRET,
  [SECRET],
  { version: 99, job: { push: SECRET } },
  { work: null, app: 1, fanOut: 1, pushes: {}, webhook: [], task: SECRET, events: 'none' },
  { work: SECRET, app: SECRET, fanOut: SECRET, pushes: [SECRET], webhook: SECRET, events: [[]] },
  {
    ...{ work: HUGE, app: HUGE, fanOut: HUGE, pushes: [HUGE] },
    ...{ webhook: HUGE, task: HUGE, events: HUGE },
  },
  { app: Array(10_000).fill(0), pushes: Array(10_000).fill({}), events: Array(10_000).fill(0) },
];

let set: ServiceSet;
let tables: Pick<StoreUnderTest, 'pushes' | 'batches' | 'inbox'>;
let redis: Redis;
let jobs: JobQueues;
beforeAll(async () => {
  set = await openServiceSet();
  const { db } = set.mongo;
  tables = {
    pushes: db.collection('pushes'),
    batches: db.collection('batches'),
    inbox: db.collection('inbox'),
  };
  redis = new Redis(set.servers.redis.url);
  jobs = await openJobQueues(set.servers.redis);
}, LIMIT_MS);
afterAll(async () => {
  await jobs?.close();
  redis?.disconnect();
  await set?.stop();
});

/** Makes a job's data something that is no JSON. */
const corrupt = (name: QueueName, id: string) =>
  redis.hset(`bull:${name}:${id}`, 'data', `{"pushes": ["${SECRET}`);

async function expectAllInInbox(ids: readonly string[], times: number): Promise<void> {
  const filter = { push: { $in: [...ids] } };
  const isDone = async () => (await tables.inbox.countDocuments(filter)) === RECIPIENTS * times;
  await until(isDone, { timeoutMs: 60_000, what: 'all inbox rows' });
}

test(
  'the job is logged without its data, and every queue continues',
  async () => {
    for (const name of QUEUE_NAMES) {
      await jobs.pause(name);
      for (const data of INVALID_DATA) await jobs.add(name, data);
      for (const id of await jobs.add(name, {}, { times: 2 })) await corrupt(name, id);
    }
    await Promise.all(QUEUE_NAMES.map((name) => jobs.resume(name)));
    await Promise.all(QUEUE_NAMES.map((name) => jobs.untilDone(name)));
    const push = await insertPush(tables, newTokens(RECIPIENTS));
    await expectAllInInbox([push.id], 1);
    const services = [set.find('delivery-worker'), set.find('scheduler')];
    const output = services.map((service) => service.output()).join('');
    for (const name of QUEUE_NAMES) expect(output).toContain(`invalid job in the queue ${name}: `);
    expect(output).not.toContain(SECRET);
    expect(Math.max(...output.split('\n').map((line) => line.length))).toBeLessThan(LONGEST_LINE);
    for (const service of services) {
      expect(service.isRunning()).toBe(true);
      // A busy machine may be late with a response.
      expect(await until(() => service.probe('/readyz'))).toEqual({ status: 200, faults: [] });
    }
  },
  LIMIT_MS,
);

test(
  'an invalid job with the id of a real one prevents no delivery',
  async () => {
    await Promise.all(['send', 'deliver-mqtt'].map((name) => jobs.pause(name as QueueName)));
    const pushes: string[] = [];
    for (const spoil of [async () => undefined, corrupt]) {
      const embedded = await insertPush(tables, newTokens(RECIPIENTS));
      const separate = await insertPush(tables, newTokens(RECIPIENTS), { shape: 'in two batches' });
      pushes.push(embedded.id, separate.id);
      const ids = { jobId: sendJobId(embedded.id, 0) };
      for (const id of await jobs.add('send', { app: SECRET }, ids)) await spoil('send', id);
      for (const batch of separate.batchIds)
        for (const id of await jobs.add('deliver-mqtt', {}, { jobId: deliverJobId(batch) }))
          await spoil('deliver-mqtt', id);
    }
    await Promise.all(['send', 'deliver-mqtt'].map((name) => jobs.resume(name as QueueName)));
    await expectAllInInbox(pushes, pushes.length);
  },
  LIMIT_MS,
);
