import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Redis } from '../../packages/presence/src/redis.ts';
import { createProducers, type Producers } from '../../packages/queue/src/producers.ts';
import { type DataServers, startDataServers } from '../support/operators/data-servers.ts';
import { type ServiceProcess, startService } from '../support/operators/service-process.ts';
import { openRedis } from '../support/redis.ts';
import { until } from '../support/until.ts';

let servers: DataServers;
let redis: Redis;
let producers: Producers;
let worker: ServiceProcess;
beforeAll(async () => {
  servers = await startDataServers();
  redis = await openRedis({ redis: servers.redis.url });
  await redis.acl('SETUSER', 'noscript', 'on', '>secret', '~*', '&*', '+@all', '-eval');
  producers = createProducers(servers.redis, () => undefined);
  const PRESENCE_REDIS_URL = servers.redis.url.replace('//', '//noscript:secret@');
  worker = await startService('delivery-worker', { ...servers.env, PRESENCE_REDIS_URL });
});
afterAll(async () => {
  worker?.kill('SIGKILL');
  await worker?.exited;
  await producers?.close();
  redis?.disconnect();
  await servers?.stop();
});

test('a delivery-worker waits for a Redis that runs scripts, says so, and then takes jobs', async () => {
  await producers.send({ app: 'a', id: 'missing', recipients: 1 });
  await until(() => worker.output().includes('NOPERM'), { what: 'the refusal in the log' });
  expect((await worker.probe('/readyz')).status).toBe(503);
  expect(await producers.countDue('send')).toBe(1);
  await redis.acl('SETUSER', 'noscript', '+eval');
  await worker.untilReady();
  await until(async () => (await producers.countDue('send')) === 0, { what: 'the job is taken' });
});
