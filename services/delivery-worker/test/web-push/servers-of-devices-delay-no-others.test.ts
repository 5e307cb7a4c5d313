import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { newObjectId, newPushId } from '@carillon/core/ids';
import { OUTCOMES } from '@carillon/core/outcomes';
import { parseSealingKeys, seal } from '@carillon/core/sealing';
import { parsePushHosts } from '@carillon/core/web-push-endpoint';
import { createEmbeddedBatch } from '@carillon/store/create-batches';
import { credentialId } from '@carillon/store/credentials';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import {
  type StoreUnderTest,
  startStore,
} from '../../../../packages/store/test/store-under-test.ts';
import { createWebPush } from '../../src/channels/web-push/client.ts';
import { createQueryLookup } from '../../src/channels/web-push/connect-target.ts';
import { createAcceptedRecorder } from '../../src/deliver/accepted-devices.ts';
import type { Delivery } from '../../src/deliver/channel.ts';
import { createDeliverByProvider } from '../../src/deliver/deliver-by-provider.ts';
import { createProviderClientPool } from '../../src/deliver/provider-clients.ts';
import { createBrowser, createSecret } from './browser.ts';
import { type DnsServer, startDnsServer } from './dns-server.ts';
import { createHandler, type PushService, startPushService } from './push-service.ts';

const KEYS = parseSealingKeys(`1:${'ab'.repeat(32)}`);
/** Servers that never respond: more than a batch has requests in flight. */
const SILENT = 120;
const WINDOW = 50;
const DEADLINE_MS = 1_000;

const browser = createBrowser();
const sockets = new Set<Socket>();
let database: StoreUnderTest;
let service: PushService;
let silent: Server;
let dns: DnsServer;
beforeAll(async () => {
  database = await startStore();
  service = await startPushService();
  silent = createServer((socket) => sockets.add(socket)).listen(0, '127.0.0.1');
  await once(silent, 'listening');
  dns = await startDnsServer(() => ['127.0.0.1']);
});
afterAll(async () => {
  for (const socket of sockets) socket.destroy();
  silent?.close();
  await dns?.stop();
  await service?.stop();
  await database?.stop();
});

/** Creates an app with a key pair, and the delivery to its browsers. */
async function createApp() {
  const { store } = database;
  const app = newObjectId();
  const key = { app, channel: 'web-push' as const };
  const secret = seal(KEYS, credentialId(key), JSON.stringify(createSecret()));
  await store.credentials.put(key, secret, {});
  const channel = createWebPush({
    hosts: parsePushHosts([service.host, '*']),
    ca: service.ca,
    dnsLookup: createQueryLookup([dns.address]),
    isPublic: () => true,
    deadlineMs: DEADLINE_MS,
  });
  const clientPool = createProviderClientPool({
    ...{ name: 'web-push', loadChannel: async () => channel, keys: KEYS },
    ...{ credentials: store.credentials, onError: () => undefined },
  });
  const deliver = createDeliverByProvider({
    ...{ name: 'web-push', clientPool, window: WINDOW, store, report: () => undefined },
    accepted: createAcceptedRecorder(store, () => undefined),
    getAppSettings: () => Promise.reject(new Error('browsers need none')),
  });
  return { app, clientPool, deliver };
}

test('servers that devices have chosen and that never respond come after all others', async () => {
  const { app, clientPool, deliver } = await createApp();
  const { port } = silent.address() as AddressInfo;
  const endpoints = [
    ...Array.from({ length: SILENT }, (_, n) => `https://n${n}.silent.example:${port}/x`),
    `https://${service.host}/browser`,
  ];
  const tokens: string[] = [];
  for (const endpoint of endpoints) {
    const { since: _, ...address } = browser.address(endpoint);
    tokens.push((await database.store.devices.register(app, 'web', address)).token);
  }
  const push = newPushId(Date.now());
  const at = new Date();
  const { work } = createEmbeddedBatch('web-push', tokens, 'ready', at);
  const later = new Date(Date.now() + 60_000);
  const pending = new Set(tokens.keys());
  const ended: [position: number, outcome: number][] = [];
  const delivery = {
    push: {
      ...{ _id: push, app, state: 'open', acceptedAt: at, data: '{}' },
      ...{ expiresAt: later, sendUntil: later },
    },
    batch: { id: push, work },
    ...{ span: undefined, tokens, pending, inFlight: new Set<number>() },
    maySend: async () => true,
    maySendNow: () => true,
    recordOutcome(position: number, outcome: number) {
      pending.delete(position);
      ended.push([position, outcome]);
    },
    save: async () => undefined,
  } as unknown as Delivery;
  let connectedBefore = Number.NaN;
  service.respondWith((request, response) => {
    connectedBefore = sockets.size;
    createHandler(201)(request, response);
  });
  await deliver(delivery);
  expect(ended).toEqual([[SILENT, OUTCOMES.sent]]);
  expect([connectedBefore, sockets.size > WINDOW]).toEqual([0, true]);
  await clientPool.close();
});
