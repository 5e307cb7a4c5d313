import { join } from 'node:path';
import { createSetupLink } from '@carillon/admin/operators';
import { createLogger } from '@carillon/runtime/logger';
import { createMetrics } from '@carillon/runtime/metrics';
import { ensureIndexes } from '@carillon/store/migrate';
import { MongoClient } from 'mongodb';
import { startRedis } from '../../../packages/presence/test/start-server.ts';
import { openStore, type TestStore } from '../../../test/support/open-store.ts';
import { startDatabase } from '../../../test/support/own-database.ts';
import { createConsole } from '../src/console.ts';
import { createEngine } from '../src/engine.ts';
import { environment } from '../src/environment.ts';

const RUNBOOKS = join(import.meta.dirname, '../../../docs/run/runbooks');
export const PASSWORD = 'correct horse battery staple';
export const SETTINGS = {
  MONGODB_URI: 'mongodb://127.0.0.1:1/unused',
  DASHBOARD_LISTEN: '127.0.0.1:0',
  API_KEY_PEPPER: 'p'.repeat(32),
  CREDENTIAL_KEYS: `1:${'ab'.repeat(32)}`,
};

/** A console on a database of its own. */
export type ConsoleUnderTest = Awaited<ReturnType<typeof startConsole>>;

/** Starts a console. @param settings environment variables besides {@link SETTINGS} */
export async function startConsole(
  settings: Record<string, string> = {},
  pagesFolder = '/nonexistent',
) {
  const [database, redis] = await Promise.all([startDatabase(), startRedis()]);
  const { uri } = database;
  const client = await new MongoClient(uri).connect();
  await ensureIndexes(client.db());
  const store = await openStore({ uri, appName: 'test' });
  const stops: (() => Promise<void> | void)[] = [() => store.close()];
  const settingsWithRedis = { ...SETTINGS, REDIS_URL: `redis://127.0.0.1:${redis.port}` };
  const env = environment.parse({ ...settingsWithRedis, ...settings });
  const log = createLogger('dashboard', 'fatal');
  const connectEngine = (ofStore: TestStore) => {
    const release = (_: string, stop: () => unknown) =>
      void stops.unshift(async () => void (await stop()));
    return createEngine({ log, release }, env, ofStore);
  };
  const engine = await connectEngine(store);
  const start = async (more: Record<string, string>, own = { store, engine }): Promise<string> => {
    const env = environment.parse({ ...settingsWithRedis, ...more });
    const context = { log, metrics: createMetrics() };
    const { port, stop } = await createConsole(context, env, {
      ...own,
      ...{ pagesFolder, runbooksFolder: RUNBOOKS },
      version: '1.2.3',
    });
    stops.unshift(stop);
    return `http://127.0.0.1:${port}`;
  };
  return {
    url: await start(settings),
    uri,
    db: client.db(),
    store,
    engine,
    env,
    /** Starts the console of a further process on the same database. */
    async startAnother(more: Record<string, string> = {}): Promise<string> {
      const own = await openStore({ uri, appName: 'test' });
      stops.unshift(() => own.close());
      return start(more, { store: own, engine: await connectEngine(own) });
    },
    async stop(): Promise<void> {
      for (const stop of stops) await stop();
      await client.close();
      await database.stop();
      await redis.stop();
    },
  };
}

/** Response of the console; the text of a body that is not JSON. */
export interface ConsoleResponse {
  status: number;
  body: ReturnType<typeof JSON.parse>;
  headers: Headers;
}

/** Sends a request with a JSON body. */
async function send(
  url: string,
  { method, body, headers }: { method: string; body: unknown; headers: Record<string, string> },
): Promise<ConsoleResponse> {
  const response = await fetch(url, {
    method,
    redirect: 'manual',
    headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const type = response.headers.get('content-type') ?? '';
  // An event stream has no end.
  if (type.startsWith('text/event-stream')) await response.body?.cancel();
  const text = response.bodyUsed ? '' : await response.text();
  const isJson = type.startsWith('application/json');
  return {
    ...{ status: response.status, headers: response.headers },
    body: isJson ? JSON.parse(text) : text,
  };
}

type Request = (method: string, path: string, body?: unknown) => Promise<ConsoleResponse>;

/** A program that calls the routes of the admin API, named as in the console's own API, with an operator token. */
export function createProgram(url: string, token: string) {
  const request: Request = (method, path, body) =>
    send(`${url}${path.replace(/^\/api\//, '/api/v1/')}`, {
      ...{ method, body, headers: { authorization: `Bearer ${token}` } },
    });
  return {
    token,
    request,
    get: (path: string) => request('GET', path),
    post: (path: string, body: unknown = {}) => request('POST', path, body),
    ...byMethod(request),
  };
}

function byMethod(request: Request) {
  return {
    put: (path: string, body: unknown = {}) => request('PUT', path, body),
    delete: (path: string) => request('DELETE', path),
  };
}

/** A browser that keeps cookies and the CSRF token, and sends the headers that browsers send. */
export function createBrowser(url: string) {
  const cookies = new Map<string, string>();
  let csrf: string | undefined;

  async function request(
    method: string,
    path: string,
    body?: unknown,
    headers: Record<string, string> = {},
  ): Promise<ConsoleResponse> {
    const response = await send(`${url}${path}`, {
      ...{ method, body },
      headers: {
        cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; '),
        ...(method !== 'GET' && { origin: url }),
        ...(csrf !== undefined && method !== 'GET' && { 'x-csrf-token': csrf }),
        ...headers,
      },
    });
    for (const cookie of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(cookie) ?? [];
      if (value === '') cookies.delete(name);
      else cookies.set(name, value);
    }
    if (typeof response.body.csrf === 'string') csrf = response.body.csrf;
    return response;
  }

  return {
    cookies,
    request,
    get: (path: string, headers?: Record<string, string>) =>
      request('GET', path, undefined, headers),
    post: (path: string, body: unknown = {}, headers?: Record<string, string>) =>
      request('POST', path, body, headers),
    ...byMethod(request),
  };
}

export type Browser = ReturnType<typeof createBrowser>;

/** Returns the token of a link. */
export function tokenOf(link: string | undefined): string {
  return /#token=([\w-]{43})$/.exec(link ?? '')?.[1] ?? '';
}

/** Creates the first operator by its link and returns its browser. */
export async function setUpOwner({ url, store }: ConsoleUnderTest, name = 'Owner') {
  const browser = createBrowser(url);
  const token = tokenOf(await createSetupLink(store, url));
  const response = await browser.post('/api/setup', { token, name, password: PASSWORD });
  if (response.status !== 200) throw new Error(`set-up failed: ${JSON.stringify(response.body)}`);
  return browser;
}

/** Creates an operator by an invite of an owner and returns its browser. */
export async function inviteBrowser(
  owner: Browser,
  url: string,
  { name, role, accounts = 'all' }: { name: string; role: string; accounts?: string[] | 'all' },
): Promise<Browser & { id: string }> {
  const invited = await owner.post('/api/operators/invite', { role, accounts });
  const browser = createBrowser(url);
  const token = tokenOf(invited.body.link);
  const response = await browser.post('/api/setup', { token, name, password: PASSWORD });
  if (response.status !== 200) throw new Error(`invite failed: ${JSON.stringify(response.body)}`);
  return { ...browser, id: response.body.operator.id };
}
