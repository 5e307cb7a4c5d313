import { setTimeout as sleep } from 'node:timers/promises';
import { jobSchemas } from '../src/jobs.ts';
import { createProducers } from '../src/producers.ts';
import { startTicks } from '../src/ticks.ts';
import { createWorker } from '../src/workers.ts';

const JOB_MS = 2_000;

// A worker with a job in progress, which `stopped-and-killed-workers-lose-no-job` starts as a process: BullMQ keeps timers.
const [url = ''] = process.argv.slice(2);
const print = (line: string) => process.stdout.write(`${line}\n`);
print('up');
const settings = { redis: { url }, onError: () => undefined };
const processJob = async () => {
  print('begun');
  await new Promise((resolve) => process.once('SIGTERM', resolve));
  await sleep(JOB_MS);
  print('done');
};
const worker = createWorker(settings, 'deliver-mqtt', jobSchemas.deliver, processJob, 4);
const producers = createProducers(settings.redis, settings.onError);
const ticks = startTicks(
  settings,
  { reconcile: 1_000, clean: 5_000, prune: 5_000 },
  async () => undefined,
);
process.once('SIGTERM', async () => {
  await Promise.all([worker.stop(), producers.close(), ticks.stop()]);
  print('stopped');
  process.exit(0);
});
await producers.deliver({ app: 'app', id: 'work', channel: 'mqtt', recipients: 1 });
