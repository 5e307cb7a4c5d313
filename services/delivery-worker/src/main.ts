import { parseSealingKeys } from '@carillon/core/sealing';
import { createHandOver } from '@carillon/presence/hand-over';
import { connectRedis } from '@carillon/presence/redis';
import { createWhoIsOnline } from '@carillon/presence/who-is-online';
import { createProducers } from '@carillon/queue/producers';
import { commonEnv, mongodbEnv, presenceEnv, redisEnv } from '@carillon/runtime/env';
import { runService } from '@carillon/runtime/service';
import { connectStore } from '@carillon/store/store';
import { z } from 'zod';
import { assembleDelivery, assembleFanOut } from './assemble.ts';
import { deliverWork } from './deliver/deliver-work.ts';
import { createLeases } from './deliver/leases.ts';
import { fanOutStep } from './fan-out/fan-out.ts';
import { openProviders } from './open-providers.ts';
import { startWorkers } from './workers.ts';

const environment = z.object({
  ...commonEnv,
  ...mongodbEnv,
  ...redisEnv,
  ...presenceEnv,
  /** Jobs of each queue at once. */
  CONCURRENCY: z.coerce.number().int().min(1).max(500).default(24),
  /** How long a push delivered to all can be asked for. */
  RETENTION_SECONDS: z.coerce.number().int().min(1).default(172_800),
  /** Keys of the providers' secrets, newest first: `2:<hex>,1:<hex>`. */
  CREDENTIAL_KEYS: z.string().transform(parseSealingKeys),
  /** Hosts (with their port, unless 443) of Web Push services besides the browsers' own, separated by commas. */
  WEB_PUSH_HOSTS: z
    .string()
    .default('')
    .transform((text) => text.split(',').filter(Boolean)),
  /** Certificate of the authority that signed theirs, PEM. */
  WEB_PUSH_CA: z.string().optional(),
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
  const providers = openProviders(env, { store, log, metrics, release, onError });
  let isStopping = false;
  const opened = {
    store,
    producers,
    whoIsOnline,
    handOver,
    leases,
    retentionMs,
    providers,
    isStopping: () => isStopping,
  };
  const delivery = assembleDelivery(opened);
  const fanOut = assembleFanOut(opened);
  const works = metrics.counter('carillon_works_total', 'Units of work by their end', ['end']);
  async function deliver(id: string): Promise<void> {
    const startedAt = performance.now();
    const delivered = await deliverWork(delivery, id);
    works.add(1, { end: delivered.end });
    log.info({ ...delivered, ms: Math.round(performance.now() - startedAt) }, 'work');
  }

  const stops = startWorkers(
    { redisUrl: env.REDIS_URL, onError },
    {
      fanOut: (push) => fanOutStep(fanOut, push),
      deliver,
      finish: (push) => store.endings.finish(push, retentionMs),
      noteActivity: store.devices.touch,
    },
    env.CONCURRENCY,
  );
  release('workers', async () => {
    isStopping = true;
    await Promise.all(stops.map((stop) => stop()));
  });
});
