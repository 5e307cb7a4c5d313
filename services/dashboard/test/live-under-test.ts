import { connectRedis, type Redis } from '@carillon/presence/redis';
import { startRedis, startServer } from '../../../packages/presence/test/start-server.ts';
import { type StoreUnderTest, startStore } from '../../../packages/store/test/store-under-test.ts';
import { until } from '../../../test/support/until.ts';
import { type ConsoleRoute, EventStream, type SessionOperator } from '../src/http/route.ts';
import { liveRoutes } from '../src/live/routes.ts';

export const ALL_ACCOUNTS_VIEWER: SessionOperator = {
  id: 'o1',
  name: 'ada',
  role: 'viewer',
  accounts: 'all',
};

/** One viewer of the event stream, and the events that it has received. */
export interface Viewer {
  events: { event: string; data: unknown }[];
  /** Waits for a further event of a kind, and returns its data. */
  next(event: string): Promise<unknown>;
  leave(): void;
}

/** The live routes on a Redis and a MongoDB of their own. */
export type LiveUnderTest = Awaited<ReturnType<typeof startLive>>;

/** Starts them; the shared reader reads every 50 ms. */
export async function startLive() {
  const server = await startRedis();
  const database = await startStore();
  const redis = await connectRedis(server);
  const routes = liveRoutes({ redis, store: database.store, intervalMs: 50 });
  const viewers = new Set<AbortController>();
  let restarted: { stop(): Promise<void> } | undefined;

  /** Calls a route as the router does. */
  async function get(
    path: string,
    query: object = {},
    operator = ALL_ACCOUNTS_VIEWER,
  ): Promise<unknown> {
    const route = routes.find((one: ConsoleRoute) => one.path === path);
    if (route === undefined) throw new Error(`there is no route ${path}`);
    const input = route.input.parse(query);
    return route.handle({ input, bodyText: '', operator, requestId: 'r' });
  }

  async function view(query: object = {}, operator = ALL_ACCOUNTS_VIEWER): Promise<Viewer> {
    const stream = await get('/events', query, operator);
    if (!(stream instanceof EventStream)) throw new Error('GET /events returned no event stream');
    const closing = new AbortController();
    viewers.add(closing);
    const events: Viewer['events'] = [];
    stream.open((event, data) => events.push({ event, data }), closing.signal);
    return {
      events,
      async next(event) {
        const known = events.length;
        const found = await until(() => events.slice(known).find((one) => one.event === event));
        return found.data;
      },
      leave: () => closing.abort(),
    };
  }

  return {
    server,
    redis,
    database,
    get,
    view,
    async restartRedis(): Promise<void> {
      const args = (own: { port: number; folder: string }) => [
        ...['--port', `${own.port}`, '--bind', '127.0.0.1', '--dir', own.folder, '--save', ''],
      ];
      restarted = await startServer('redis-server', args, server.port);
    },
    async stop(): Promise<void> {
      for (const viewer of viewers) viewer.abort();
      redis.disconnect();
      await Promise.all([server.stop(), restarted?.stop(), database.stop()]);
    },
  };
}

/** Creates an app with a credential that its provider refuses. */
export async function createRefusedApp(
  { store }: StoreUnderTest,
  name: string,
): Promise<{ account: string; app: string }> {
  const account = await store.accounts.create(`account of ${name}`, 'pro');
  const app = await store.apps.create(name, account);
  const sealed = { key: 1, nonce: '', text: '', tag: '' };
  const saved = await store.credentials.put({ app, channel: 'apns' }, sealed, {});
  await store.credentials.recordRefusal(saved._id, saved.revision, 'InvalidProviderToken', -1_000);
  return { account, app };
}

/** Counts the commands that a Redis has run, by name. */
export async function countCommands(redis: Redis): Promise<Record<string, number>> {
  const stats = await redis.info('commandstats');
  const calls = [...stats.matchAll(/cmdstat_(\S+):calls=(\d+)/g)];
  return Object.fromEntries(calls.map(([, name, n]) => [name ?? '', Number(n)]));
}
