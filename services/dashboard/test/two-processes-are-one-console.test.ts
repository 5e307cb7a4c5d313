import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { createSetupLink } from '@carillon/admin/operators';
import { migrate } from '@carillon/store/schema';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { freePort, startRedis } from '../../../packages/presence/test/start-server.ts';
import { type StoreUnderTest, startStore } from '../../../packages/store/test/store-under-test.ts';
import { startProcess, type TestProcess } from '../../../test/support/child-process.ts';
import { until } from '../../../test/support/until.ts';
import { type Browser, createBrowser, PASSWORD, tokenOf } from './console-under-test.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
/** A connection of its own for each request, so that the next one may go to the other process. */
const CLOSE = { connection: 'close' };

interface Replica {
  port: number;
  process: TestProcess;
}

let database: StoreUnderTest;
let redis: Awaited<ReturnType<typeof startRedis>>;
let replicas: [Replica, Replica];
let address: Awaited<ReturnType<typeof startSharedAddress>>;
let owner: Browser;

beforeAll(async () => {
  [database, redis] = await Promise.all([startStore(), startRedis()]);
  await migrate(database.db);
  replicas = [await startReplica(), await startReplica()];
  address = await startSharedAddress();
  await until(() => Promise.all(replicas.map(isReady)).then((ready) => ready.every(Boolean)), {
    what: 'both consoles are ready',
    timeoutMs: 60_000,
  });
  address.use(0);
  owner = await redeem((await createSetupLink(database.store, address.url)) ?? '', 'Owner');
}, 120_000);
afterAll(async () => {
  await address?.stop();
  for (const { process } of replicas ?? []) await process.stop();
  await redis?.stop();
  await database?.stop();
});

async function startReplica(): Promise<Replica> {
  const [port, opsPort] = [await freePort(), await freePort()];
  const child = startProcess(process.execPath, ['services/dashboard/src/main.ts'], {
    cwd: ROOT,
    env: {
      PATH: process.env.PATH ?? '',
      MONGODB_URI: database.uri,
      REDIS_URL: redis.url,
      DASHBOARD_LISTEN: `127.0.0.1:${port}`,
      OPS_LISTEN: `127.0.0.1:${opsPort}`,
      API_KEY_PEPPER: 'p'.repeat(32),
      CREDENTIAL_KEYS: `1:${'ab'.repeat(32)}`,
      LOG_LEVEL: 'warn',
    },
  });
  return { port, process: child };
}

const isReady = ({ port }: Replica): Promise<boolean> =>
  fetch(`http://127.0.0.1:${port}/api/login`).then(
    ({ ok }) => ok,
    () => false,
  );

/** Starts the single address of both processes. New connections go to the selected one. */
async function startSharedAddress() {
  const sockets = new Set<Socket>();
  let chosen = 0;
  const server = createServer((socket) => {
    const upstream = connect(replicas[chosen]?.port ?? 0, '127.0.0.1');
    for (const one of [socket, upstream]) {
      sockets.add(one);
      one.once('close', () => {
        sockets.delete(one);
        socket.destroy();
        upstream.destroy();
      });
      one.on('error', () => undefined);
    }
    socket.pipe(upstream).pipe(socket);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    use(replica: 0 | 1): void {
      chosen = replica;
    },
    async stop(): Promise<void> {
      for (const socket of sockets) socket.destroy();
      const closed = once(server, 'close');
      server.close();
      await closed;
    },
  };
}

async function redeem(link: string, name: string): Promise<Browser> {
  const browser = createBrowser(address.url);
  const body = { token: tokenOf(link), name, password: PASSWORD };
  const response = await browser.post('/api/setup', body, CLOSE);
  expect(response.status).toBe(200);
  return browser;
}

test('a session and a one-time link of one process are valid at the other', async () => {
  expect((await owner.get('/api/session', CLOSE)).status).toBe(200);
  address.use(1);
  expect((await owner.get('/api/session', CLOSE)).body.operator.name).toBe('Owner');
  const invite = { role: 'viewer', accounts: 'all' };
  const { link } = (await owner.post('/api/operators/invite', invite, CLOSE)).body;
  address.use(0);
  const viewer = await redeem(link, 'Vera');
  address.use(1);
  expect((await viewer.get('/api/session', CLOSE)).status).toBe(200);
  const again = { token: tokenOf(link), name: 'Again', password: PASSWORD };
  expect((await createBrowser(address.url).post('/api/setup', again, CLOSE)).status).not.toBe(200);
});

test('a disabled operator has no session at either from then on', async () => {
  const { items } = (await owner.get('/api/operators', CLOSE)).body;
  const vera = items.find(({ name }: { name: string }) => name === 'Vera');
  const viewer = createBrowser(address.url);
  await viewer.post('/api/login', { name: 'Vera', password: PASSWORD }, CLOSE);
  address.use(0);
  expect((await viewer.get('/api/session', CLOSE)).status).toBe(200);
  await owner.request('PUT', `/api/operators/${vera.id}`, { disabled: true }, CLOSE);
  for (const replica of [0, 1] as const) {
    address.use(replica);
    expect((await viewer.get('/api/session', CLOSE)).status).toBe(401);
  }
});

test('a re-drive that was begun at one process is shown at the other, and is the only one of its app', async () => {
  const { store } = database;
  const app = await store.apps.create('app', await store.accounts.create('account', 'pro'));
  address.use(0);
  const started = await owner.post(`/api/apps/${app}/redrives`, { filter: {} }, CLOSE);
  expect(started.status).toBe(200);
  address.use(1);
  const { body } = await owner.get(`/api/redrives/${started.body.id}`, CLOSE);
  expect(body).toMatchObject({ app, state: 'running', done: 0 });
  const second = await owner.post(`/api/apps/${app}/redrives`, { filter: {} }, CLOSE);
  expect([second.status, second.body.code]).toEqual([409, 'CONFLICT']);
});
