import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { digestApiKey } from '@carillon/core/api-key';
import { newApiKey, newPushId } from '@carillon/core/ids';
import { connectPresence, type PresenceServer } from '@carillon/presence/presence-server';
import { createRateCounter } from '@carillon/presence/rate-counter';
import type { Redis } from '@carillon/presence/redis';
import { createSlots } from '@carillon/presence/slots';
import { createProducers, type Producers } from '@carillon/queue/producers';
import type { PushDocument } from '@carillon/store/documents';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { startRedis, type TestServer } from '../../../packages/presence/test/start-server.ts';
import { type StoreUnderTest, startStore } from '../../../packages/store/test/store-under-test.ts';
import { until } from '../../../test/support/until.ts';
import { EXPORTS_PER_APP, exportRoutes } from '../src/export/routes.ts';
import { createAuthenticator } from '../src/http/authenticate.ts';
import { createKeyUseRecorder } from '../src/http/key-uses.ts';
import { createRateLimits } from '../src/http/rate-limits.ts';
import { startEdge } from './edge.ts';

const PEPPER = 'p'.repeat(32);
/** More than the buffers of two sockets hold: an export ends only if its client reads. */
const PUSHES = 6_000;
const PAYLOAD = JSON.stringify({ text: 'x'.repeat(4_000) });
const IDLE_MS = 4_000;
/** Between two reads, of 64 or 128 kB. */
const PAUSE_MS = 40;
const COMPLETE = '{"complete":true}';

let database: StoreUnderTest;
let redis: TestServer & { url: string };
let presence: PresenceServer;
let connection: Redis;
let producers: Producers;
let keyUses: ReturnType<typeof createKeyUseRecorder>;
let account: string;
let app: string;
/** Why exports were cut, as they are logged. */
const cuts: unknown[] = [];
const stops: (() => Promise<void>)[] = [];
const sockets = new Set<Socket>();
const ignore = (): void => undefined;

beforeAll(async () => {
  [database, redis] = await Promise.all([startStore(), startRedis()]);
  const { store } = database;
  presence = await connectPresence({ url: redis.url });
  connection = presence.redis as Redis;
  producers = createProducers({ url: redis.url }, ignore);
  keyUses = createKeyUseRecorder(producers, store.clock);
  account = await store.accounts.create('Test', 'pro');
  await store.accounts.limit(account, null);
  app = await store.apps.create('Test', account);
  await insertPushes();
});
afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  sockets.clear();
  await untilSlotsAreFree();
  cuts.length = 0;
});
afterAll(async () => {
  for (const stop of stops) await stop();
  await keyUses?.stop();
  await producers?.close();
  presence?.close();
  await database?.stop();
  await redis?.stop();
});

/** Waits until no export of the app holds a slot. */
async function untilSlotsAreFree(): Promise<void> {
  const areFree = async () => (await connection.zcard(`slots:export:${app}`)) === 0;
  await until(areFree, { timeoutMs: 30_000, what: 'free slots' });
}

async function insertPushes(): Promise<void> {
  const now = new Date();
  const documents = Array.from(
    { length: PUSHES },
    (): PushDocument => ({
      ...{ _id: newPushId(now.getTime()), app, state: 'finished', acceptedAt: now },
      ...{ finishedAt: now, expiresAt: now, sendUntil: now, data: PAYLOAD, devices: 0 },
      ...{ counts: {}, fan: { seq: 0, next: 0, done: true } },
    }),
  );
  await database.pushes.insertMany(documents, { ordered: false });
}

/** Starts the routes of exports as an API process has them, and returns the port. */
async function startApi(idleMs?: number): Promise<number> {
  const { store } = database;
  const onError = (error: unknown) => void cuts.push(error);
  const rateLimits = createRateLimits(createRateCounter(presence, ignore), false);
  const stopping = new AbortController();
  const slots = createSlots(presence, EXPORTS_PER_APP, ignore);
  const limits = {
    slots,
    signal: stopping.signal,
    onError,
    ...(idleMs !== undefined && { idleMs }),
  };
  const { port, stop } = await startEdge((routing) => exportRoutes(routing, store, limits), {
    authenticate: createAuthenticator(store.keys, PEPPER, rateLimits, keyUses),
    countRequest: rateLimits.countRequest,
    onUnexpectedError: onError,
  });
  stops.push(async () => {
    stopping.abort();
    await stop();
  });
  return port;
}

async function newKey(): Promise<{ id: string; key: string }> {
  const key = newApiKey();
  const digest = digestApiKey(PEPPER, key);
  return { key, id: await database.store.keys.create(app, digest, key.slice(-4)) };
}

/** Begins an export on a connection that reads nothing. */
async function beginExport(port: number, key: string): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  sockets.add(socket);
  socket.on('error', ignore);
  const head = `GET /export/pushes?api_key=${key} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n`;
  socket.write(head);
  await once(socket, 'readable');
  return socket;
}

/** Reads until the server closes the connection, cleanly or not. */
async function readToEnd(socket: Socket): Promise<string> {
  let text = '';
  socket.setEncoding('latin1').on('data', (chunk: string) => {
    text += chunk;
  });
  await new Promise((resolve) => socket.once('close', resolve));
  return text;
}

const codeOf = async (port: number, key: string): Promise<string | undefined> => {
  const response = await fetch(`http://127.0.0.1:${port}/export/devices?api_key=${key}`);
  const text = await response.text();
  return response.status === 200 ? undefined : (JSON.parse(text) as { code: string }).code;
};

/** Expects a partial response, without the last line and the end of the body. */
function expectCut(text: string): void {
  expect(text).toMatch(/^HTTP\/1\.1 200 /);
  expect(text).not.toContain(COMPLETE);
  expect(text.endsWith('\r\n0\r\n\r\n')).toBe(false);
}

describe('an export in progress', () => {
  test.each([
    ['a revoked key', 'INVALID_API_KEY', (id: string) => database.store.keys.revoke(id)],
    ['a suspended account', 'ACCOUNT_SUSPENDED', () => database.store.accounts.suspend(account)],
  ])('is cut after %s, as new requests are refused', async (_what, code, take) => {
    const port = await startApi();
    const { id, key } = await newKey();
    const socket = await beginExport(port, key);
    await take(id);
    // The process caches keys for seconds.
    await until(async () => (await codeOf(port, key)) === code, { timeoutMs: 30_000 });
    expectCut(await readToEnd(socket));
    expect(cuts).toEqual([expect.objectContaining({ code })]);
    await database.store.accounts.resume(account);
  });

  test('is cut when the process stops', async () => {
    const { key } = await newKey();
    const socket = await beginExport(await startApi(), key);
    const text = readToEnd(socket);
    await stops.pop()?.();
    expectCut(await text);
  });

  test('is complete when its client continues to read after a pause', async () => {
    const { key } = await newKey();
    const socket = await beginExport(await startApi(), key);
    const text = await readToEnd(socket);
    expect(text).toContain(COMPLETE);
    expect(text.split('"payload"')).toHaveLength(PUSHES + 1);
    expect(cuts).toEqual([]);
  });
});

describe('a client that reads nothing', () => {
  test('is cut off, and both slots of the app are free again', async () => {
    const port = await startApi(IDLE_MS);
    const { key } = await newKey();
    const idle = [await beginExport(port, key), await beginExport(port, key)];
    // Without the cut they would hold the slots forever: their data exceed every buffer.
    await untilSlotsAreFree();
    expect(await codeOf(port, key)).toBeUndefined();
    for (const socket of idle) expectCut(await readToEnd(socket));
  });

  test('is distinguished from a slow client', async () => {
    const { key } = await newKey();
    const socket = await beginExport(await startApi(IDLE_MS), key);
    const startedAt = performance.now();
    let tail = '';
    while (!tail.includes(COMPLETE) && !socket.destroyed) {
      const chunk: Buffer | null = socket.read();
      tail = `${tail}${chunk ?? ''}`.slice(-2 * COMPLETE.length);
      await sleep(PAUSE_MS);
    }
    expect(tail).toContain(COMPLETE);
    // It took longer than a client may be idle.
    expect(performance.now() - startedAt).toBeGreaterThan(IDLE_MS);
  });
});
