import { setTimeout as pause } from 'node:timers/promises';
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
import { createDeliverMqtt } from './channels/mqtt/deliver-mqtt.ts';
import { type DeliverDeps, deliverWork } from './deliver/deliver-work.ts';
import { createLeases } from './deliver/leases.ts';
import { settleWork } from './deliver/settle.ts';
import { type FanOutDeps, fanOutStep } from './fan-out/fan-out.ts';
import { pageTopics } from './fan-out/page-topics.ts';

const environment = z.object({
  ...commonEnv,
  ...mongodbEnv,
  ...redisEnv,
  ...presenceEnv,
  /** Jobs of each kind at once. */
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
  const settleDeps = {
    settle: store.work.settle,
    removeRows: store.inbox.remove,
    addFinishJob: (push: string) => producers.finish([push]),
    finishedPurgeAt: () => store.endings.purgeTime(retentionMs),
  };
  const deliverDeps: DeliverDeps = {
    leases,
    channels: {
      mqtt: createDeliverMqtt({
        whoIsOnline: createWhoIsOnline(presence),
        handOver,
        async owe(rows) {
          const superseded = await store.inbox.owe(rows);
          await store.fullInboxes.lookAtSome(rows.map(({ token }) => token));
          return superseded;
        },
        fullInboxes: store.fullInboxes.among,
        pause: (ms) => pause(ms),
      }),
    },
    readPush: async (id) => (await store.pushes.readForSending([id])).get(id),
    isSendable: store.pushes.isSendable,
    async receivedBefore({ work: { before } }) {
      if (before === undefined) return [];
      const answers = await handOver.readReplies(before.reply, before.claim);
      return [...answers].flatMap(([at, answer]) => (answer === 'acknowledged' ? [at] : []));
    },
    newerRecipients: ({ _id, app, collapse = '' }, tokens) =>
      store.collapse.newerRecipients({ _id, app, collapse }, tokens[0] ?? '', tokens.at(-1) ?? ''),
    giveBack: store.work.giveBack,
    settle: (push, settlement, work) => settleWork(settleDeps, push, settlement, work),
    now: store.clock.now,
  };
  const pageDeps = {
    beginPage: store.fanOuts.beginPage,
    insertPage: store.batches.insertPage,
    subscribers: store.subscriptions.stream,
    addDeliverJob: producers.deliver,
  };
  const fanOutDeps: FanOutDeps = {
    claim: store.fanOuts.claim,
    endStep: store.fanOuts.endStep,
    release: store.batches.release,
    pageTopics: (fanOut, free, isSafe) => pageTopics(pageDeps, fanOut, free, isSafe),
    addDeliverJob: producers.deliver,
    addNextStep: (push, seq, delayMs) => producers.send(push, { batches: true, seq, delayMs }),
    addFinishJob: (push) => producers.finish([push]),
  };

  const works = metrics.counter('carillon_works_total', 'Units of work by their end', ['end']);
  async function deliver(id: string): Promise<void> {
    const startedAt = performance.now();
    const delivered = await deliverWork(deliverDeps, id);
    works.add(1, { end: delivered.end });
    log.info({ ...delivered, ms: Math.round(performance.now() - startedAt) }, 'work');
  }

  const worker = { redisUrl: env.REDIS_URL, onError };
  const workers = [
    createWorker(
      worker,
      'send',
      jobSchemas.send,
      async ({ push, batches }) => (batches ? fanOutStep(fanOutDeps, push) : deliver(push)),
      env.CONCURRENCY,
    ),
    createWorker(
      worker,
      deliverQueue('mqtt'),
      jobSchemas.deliver,
      ({ work }) => deliver(work),
      env.CONCURRENCY,
    ),
    createWorker(
      worker,
      'finish',
      jobSchemas.finish,
      ({ push }) => store.endings.finish(push, retentionMs),
      env.CONCURRENCY,
    ),
    createWorker(
      worker,
      'presence',
      jobSchemas.presence,
      ({ events }) => store.devices.touch(events.map(([token, at]) => ({ token, at }))),
      2,
    ),
  ];
  release('workers', async () => {
    await Promise.all(workers.map((close) => close()));
  });
});
