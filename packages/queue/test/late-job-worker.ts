import { setTimeout as sleep } from 'node:timers/promises';
import { startTcpProxy } from '../../../test/support/tcp-proxy.ts';
import { until } from '../../../test/support/until.ts';
import { connectRedis } from '../../presence/src/redis.ts';
import { deliverJobId, jobSchemas } from '../src/jobs.ts';
import { createProducers } from '../src/producers.ts';
import { createWorker } from '../src/workers.ts';

/** Longer than a stop waits for Redis. */
const JOB_MS = 2_500;

// A worker that is stopped while the response of Redis that contains its second job is on its way.
// `stopped-and-killed-workers-lose-no-job` starts it as a process: BullMQ keeps timers.
const [url = ''] = process.argv.slice(2);
const print = (line: string) => process.stdout.write(`${line}\n`);
const onError = () => undefined;
const direct = await connectRedis({ url });
const producers = createProducers({ url }, onError);
await producers.deliver({ app: 'app', id: 'first', channel: 'mqtt', recipients: 1 });
await producers.deliver({ app: 'app', id: 'second', channel: 'mqtt', recipients: 1 });
const proxy = await startTcpProxy(Number(new URL(url).port));
const redis = { url: `redis://127.0.0.1:${proxy.port}` };
const processJob = async ({ work }: { work: string }) => {
  print(`${work} begun`);
  if (work === 'first') return proxy.block('responses');
  await sleep(JOB_MS);
  print(`${work} done`);
};
const worker = createWorker({ redis, onError }, 'deliver-mqtt', jobSchemas.deliver, processJob, 1);
const isHandedOver = async () =>
  (await direct.lrange('bull:deliver-mqtt:active', 0, -1)).includes(deliverJobId('second'));
await until(isHandedOver, { timeoutMs: 20_000, what: 'the second job is active' });
const stopped = worker.stop();
proxy.restore();
await stopped;
print('stopped');
process.exit(0);
