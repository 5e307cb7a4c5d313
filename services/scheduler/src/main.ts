import { jobSchemas } from '@carillon/queue/jobs';
import { createProducers } from '@carillon/queue/producers';
import { createWorker, keepTicking } from '@carillon/queue/workers';
import { commonEnv, mongodbEnv, redisEnv } from '@carillon/runtime/env';
import { runService } from '@carillon/runtime/service';
import { connectStore } from '@carillon/store/store';
import { z } from 'zod';
import { reconcile } from './reconcile.ts';

const environment = z.object({ ...commonEnv, ...mongodbEnv, ...redisEnv });

const TICK_MS = 1_000;

await runService('scheduler', environment, async ({ log, metrics, release, readyWhen }, env) => {
  const onError = (err: unknown): void =>
    log.warn({ err }, 'a step failed; the next tick repeats it');
  const store = await connectStore({ uri: env.MONGODB_URI, appName: 'carillon-scheduler' });
  release('mongodb', store.close);
  readyWhen({ name: 'mongodb', check: store.ping });
  const producers = createProducers(env.REDIS_URL, onError);
  release('producers', producers.close);

  const found = metrics.counter('carillon_reconciled_total', 'What ticks found owed', ['what']);
  const deps = {
    openDuePushes: store.pushes.openDue,
    dueWork: store.work.due,
    dueFanOuts: store.fanOuts.due,
    dueEndings: store.endings.due,
    addSendJob: producers.send,
    addDeliverJob: producers.deliver,
    addFinishJobs: producers.finish,
  };
  async function tick(): Promise<void> {
    const result = await reconcile(deps);
    const total = Object.values(result).reduce((sum, n) => sum + n, 0);
    for (const [what, n] of Object.entries(result)) if (n > 0) found.add(n, { what });
    if (total > 0) log.info(result, 'reconciled');
  }

  const worker = { redisUrl: env.REDIS_URL, onError };
  release(
    'worker',
    createWorker(worker, 'maintenance', jobSchemas.maintenance, () => tick(), 1),
  );
  release('ticks', keepTicking(worker, 'maintenance', 'reconcile', TICK_MS));
});
