import { jobSchemas, type MaintenanceJob } from '@carillon/queue/jobs';
import { createProducers } from '@carillon/queue/producers';
import { createWorker, keepTicking } from '@carillon/queue/workers';
import { commonEnv, mongodbEnv, redisEnv } from '@carillon/runtime/env';
import { runService } from '@carillon/runtime/service';
import { connectStore } from '@carillon/store/store';
import { z } from 'zod';
import { createClean } from './clean.ts';
import { reconcile } from './reconcile.ts';

const environment = z.object({ ...commonEnv, ...mongodbEnv, ...redisEnv });

/** How often each kind of work's turn comes. */
const EVERY_MS = { reconcile: 1_000, clean: 5_000 };
/** Cleaning must not keep what is due waiting. */
const TASKS_AT_ONCE = 2;

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
    addFanOutJob: producers.fanOut,
    addDeliverJob: producers.deliver,
    addEndJobs: producers.end,
  };
  const clean = createClean({
    abandon: store.cleaning.abandon,
    purge: store.cleaning.purge,
    recountTopics: store.topics.recountBroken,
    forgetEmptied: store.fullInboxes.forgetEmptied,
    openAfter: store.cleaning.openAfter,
    addFinishJobs: producers.finish,
  });
  async function work({ task }: MaintenanceJob): Promise<void> {
    const result = task === 'reconcile' ? await reconcile(deps) : await clean();
    const facts = Object.entries(result).filter(([, n]) => n > 0);
    for (const [what, n] of facts) found.add(n, { what });
    if (facts.length > 0) log.info(Object.fromEntries(facts), task);
  }

  const worker = { redisUrl: env.REDIS_URL, onError };
  release(
    'worker',
    createWorker(worker, 'maintenance', jobSchemas.maintenance, work, TASKS_AT_ONCE),
  );
  release('ticks', keepTicking(worker, EVERY_MS));
});
