import { parseIdempotencyKey, replayIdempotent } from '@carillon/accept/accept-push';
import { type Accept, createAccept } from '@carillon/accept/admit-push';
import { parsePush, parseTokens } from '@carillon/accept/parse-push';
import { requireApp } from '@carillon/admin/require-app';
import { startFigures } from '@carillon/presence/figures-writer';
import { connectPresence } from '@carillon/presence/presence-server';
import { createRateCounter } from '@carillon/presence/rate-counter';
import { createProducers, type Producers } from '@carillon/queue/producers';
import type { Store } from '@carillon/store/store';
import { COMMAND_LINE, runAudited } from './audited.ts';
import { withStore } from './database.ts';
import { requireSetting, type Stack } from './stack.ts';

/** The body of `POST /push` as JSON text, and its idempotency key. */
export interface PushText {
  text: string;
  idempotencyKey?: string | undefined;
}

/** Parts through which a push is accepted, as a service has them. */
type Engine = Awaited<ReturnType<typeof openEngine>>;

/**
 * Accepts a push of any app through MongoDB and Redis, as the console does: without the API and without a key. A Redis
 * that does not respond delays the push by seconds.
 *
 * @throws ApiError when it is rejected; AdminError APP_NOT_FOUND
 */
export function sendDirectly(stack: Stack, app: string, push: PushText): ReturnType<Accept> {
  const redis = { url: requireSetting(stack, 'redis'), ca: stack.redisCa };
  const presence = { url: stack.presenceRedis ?? redis.url, ca: stack.redisCa };
  return withStore(stack, async (store) => {
    const { account } = await requireApp(store, app);
    const engine = await openEngine(redis, presence);
    try {
      const change = { action: 'push.send', account, facts: { app } };
      return await runAudited(store, change, () => accept(store, engine, app, push));
    } finally {
      await engine.close();
    }
  });
}

async function accept(
  store: Store,
  { producers, rateCounter }: Engine,
  app: string,
  { text, idempotencyKey }: PushText,
): ReturnType<Accept> {
  const body = { value: JSON.parse(text), text };
  const idempotency = parseIdempotencyKey(idempotencyKey, text);
  const repeated = await replayIdempotent(store, app, idempotency, () => parseTokens(body));
  if (repeated !== undefined) return repeated;
  const request = await parsePush(body, await requireApp(store, app), store.clock.now());
  const acceptPush = createAccept(store, producers, rateCounter);
  return acceptPush(app, request, { by: { operator: COMMAND_LINE.name }, idempotency });
}

/** Connects to Redis. `close` waits for the jobs that are being added. */
async function openEngine(
  redis: Parameters<typeof createProducers>[0],
  presence: Parameters<typeof connectPresence>[0],
) {
  // The reconciler adds a job that Redis did not take.
  const ignore = (): void => undefined;
  const server = await connectPresence(presence);
  const producers = createProducers(redis, ignore);
  const figures = startFigures(redis, { log: { warn: ignore } });
  const added: Promise<void>[] = [];
  const track =
    <A extends unknown[]>(add: (...args: A) => Promise<void>) =>
    (...args: A): Promise<void> => {
      const adding = add(...args);
      added.push(adding);
      return adding;
    };
  const tracked: Producers = {
    ...producers,
    fanOut: track(producers.fanOut),
    send: track(producers.send),
    deliver: track(producers.deliver),
    scheduleDueCheck: track(producers.scheduleDueCheck),
  };
  return {
    producers: tracked,
    rateCounter: createRateCounter(server, ignore),
    async close(): Promise<void> {
      await Promise.allSettled(added);
      await Promise.all([figures.stop(), producers.close()]);
      server.close();
    },
  };
}
