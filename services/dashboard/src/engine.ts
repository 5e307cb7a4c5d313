import { acceptPush } from '@carillon/accept/accept-push';
import { createDisconnect } from '@carillon/presence/disconnect';
import { startFigures } from '@carillon/presence/figures-writer';
import { createPresenceReader } from '@carillon/presence/presence-reader';
import { connectPresence } from '@carillon/presence/presence-server';
import { createRateCounter } from '@carillon/presence/rate-counter';
import { connectRedis } from '@carillon/presence/redis';
import { type BoardQueues, openBoardQueues } from '@carillon/queue/board-queues';
import { createProducers } from '@carillon/queue/producers';
import { presenceRedis, queueRedis } from '@carillon/runtime/env';
import type { ServiceContext } from '@carillon/runtime/service';
import { createClearDeletedDevices } from '@carillon/store/delete-device';
import type { Store } from '@carillon/store/store';
import type { Environment } from './environment.ts';
import type { Accept } from './failures/redrive-push.ts';
import { createRedriveWorker } from './failures/redrive-worker.ts';
import { admitPush } from './pushes/admit-push.ts';

/** The parts through which the console accepts pushes, reads presence and figures, and re-drives. */
export type ConsoleEngine = Awaited<ReturnType<typeof createEngine>>;

/** Connects to Redis, and starts the background work of the console. Works without Redis too. */
export async function createEngine(
  { log, release }: Pick<ServiceContext, 'log' | 'release'>,
  env: Environment,
  store: Store,
) {
  const onRedisError = (err: Error): void => log.warn({ err }, 'Redis failed');
  const producers = createProducers(queueRedis(env), onRedisError);
  release('producers', producers.close);
  const queueConnection = await connectRedis(queueRedis(env));
  release('queue', () => queueConnection.disconnect());
  const presenceServer = await connectPresence(presenceRedis(env));
  release('presence', presenceServer.close);
  // The pushes that operators send are counted like those of the API.
  release('figures', startFigures(queueRedis(env), { log }).stop);
  const presenceReader = createPresenceReader(presenceServer);
  const rateCounter = createRateCounter(presenceServer, onRedisError);
  const accept: Accept = async (app, request, idempotency) => {
    await admitPush(store, rateCounter, app);
    // Read when a push needs them: a console without viewers reads nothing.
    await store.knownWebhooks.refreshIfStale();
    return acceptPush(store, producers, app, request, { idempotency });
  };
  const redriveWorker = createRedriveWorker({
    ...{ store, accept },
    onError: (err) => log.warn({ err }, 'a step of a re-drive failed'),
  });
  release('redrives', redriveWorker.stop);
  let boardQueues: Promise<BoardQueues> | undefined;
  release('board', async () => (await boardQueues)?.close());
  return {
    /** Connects to the queues for Bull Board, once, on the first request for them. */
    openQueues: (): Promise<BoardQueues> => {
      boardQueues ??= openBoardQueues(queueRedis(env), onRedisError);
      return boardQueues;
    },
    producers,
    queueConnection,
    presenceReader,
    accept,
    redriveWorker,
    disconnect: createDisconnect(presenceServer, presenceReader),
    clearDeletedDevices: createClearDeletedDevices(store, producers.checkCompletion, (err) =>
      log.warn({ err }, 'clearing a deleted device failed; the scheduler does it'),
    ),
  };
}
