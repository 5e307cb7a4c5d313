import { createHandOver } from '@carillon/presence/hand-over';
import { connectRedis } from '@carillon/presence/redis';
import { createWhoIsOnline } from '@carillon/presence/who-is-online';
import { deliverQueue, jobSchemas } from '@carillon/queue/jobs';
import { createProducers } from '@carillon/queue/producers';
import { createWorker } from '@carillon/queue/workers';
import { commonEnv, mongodbEnv, presenceEnv, redisEnv } from '@carillon/runtime/env';
import { runService } from '@carillon/runtime/service';
import { connectStore } from '@carillon/store/store';
import { z } from 'zod';
import { assembleDelivery, assembleFanOut } from './assemble.ts';
import { deliverWork } from './deliver/deliver-work.ts';
import { createLeases } from './deliver/leases.ts';
import { fanOutStep } from './fan-out/fan-out.ts';

const environment = z.object({
  ...commonEnv,
  ...mongodbEnv,
  ...redisEnv,
  ...presenceEnv,
  /** Jobs of each queue at once. */
  CONCURRENCY: z.coerce.number().int().min(1).max(500).default(50),
  /** How long a push delivered to all can be asked for. */
  RETENTION_SECONDS: z.coerce.number().int().min(1).default(172_800),
});

await runService('delivery-worker', environment, async (context, env) => {
  const { log, metrics, release, readyWhen } = context;
  const onError = (err: unknown): void => log.warn({ err }, 'a step failed; it is owed still');
  const store = await connectStore({ uri: env.MONGODB_URI, appName: 'carillon-delivery-worker' });
  release('mongodb', store.close);
  readyWhen({ name: 'mongodb', check: store.ping });

  const producers = createProducers(env.REDIS_URL, onError);
  release('producers', producers.close);
  const presenceUrl = env.PRESENCE_REDIS_URL ?? env.REDIS_URL;
  const presence = await connectRedis(presenceUrl);
  release('presence', () => presence.disconnect());
  const handOver = await createHandOver({ url: presenceUrl });
  release('hand-over', handOver.close);
  const leases = createLeases(store.work, handOver.replyStream, onError);
  release('leases', leases.stop);

  const retentionMs = env.RETENTION_SECONDS * 1_000;
  const whoIsOnline = createWhoIsOnline(presence);
  const opened = { store, producers, whoIsOnline, handOver, leases, retentionMs };
  const delivery = assembleDelivery(opened);
  const fanOut = assembleFanOut(opened);
  const works = metrics.counter('carillon_works_total', 'Units of work by their end', ['end']);
  async function deliver(id: string): Promise<void> {
    const startedAt = performance.now();
    const delivered = await deliverWork(delivery, id);
    works.add(1, { end: delivered.end });
    log.info({ ...delivered, ms: Math.round(performance.now() - startedAt) }, 'work');
  }

  const worker = { redisUrl: env.REDIS_URL, onError };
  const { send, deliver: deliverJob, finish, presence: presenceJob } = jobSchemas;
  const stops = [
    createWorker(
      worker,
      'send',
      send,
      ({ push, batches }) => (batches ? fanOutStep(fanOut, push) : deliver(push)),
      env.CONCURRENCY,
    ),
    createWorker(
      worker,
      deliverQueue('mqtt'),
      deliverJob,
      ({ work }) => deliver(work),
      env.CONCURRENCY,
    ),
    createWorker(
      worker,
      'finish',
      finish,
      ({ push }) => store.endings.finish(push, retentionMs),
      env.CONCURRENCY,
    ),
    createWorker(
      worker,
      'presence',
      presenceJob,
      ({ events }) => store.devices.touch(events.map(([token, at]) => ({ token, at }))),
      2,
    ),
  ];
  release('workers', async () => {
    await Promise.all(stops.map((stop) => stop()));
  });
});
