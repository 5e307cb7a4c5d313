import { createAccept } from '@carillon/accept/admit-push';
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
import { createClearDevices } from '@carillon/store/delete-device';
import type { Store } from '@carillon/store/store';
import type { Environment } from './environment.ts';

/** The parts through which the console accepts pushes, and reads presence and figures. */
export type ConsoleEngine = Awaited<ReturnType<typeof createEngine>>;

/** Connects to Redis. Works without Redis too. */
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
    accept: createAccept(store, producers, rateCounter),
    disconnect: createDisconnect(presenceServer, presenceReader),
    clearDevices: createClearDevices(store, producers, (err) =>
      log.warn({ err }, 'clearing a deleted device failed; the scheduler does it'),
    ),
  };
}
