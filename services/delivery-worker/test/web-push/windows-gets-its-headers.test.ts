import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { createWebPush } from '../../src/channels/web-push/client.ts';
import type { ProviderClient } from '../../src/deliver/provider.ts';
import { createPush } from '../create-push.ts';
import { createBrowser } from './browser.ts';
import { createHandler, type PushService, startPushService } from './push-service.ts';
import { createSecret } from './pushes.ts';

const WINDOWS = 'wns2-db5p.notify.windows.com';
const OTHERS = ['notify.windows.com', 'xnotify.windows.com', 'a.notify.windows.com.example.org'];

let service: PushService;
let client: ProviderClient;
const browser = createBrowser();
beforeAll(async () => {
  service = await startPushService([WINDOWS, ...OTHERS]);
  const hosts = [WINDOWS, ...OTHERS].map((host) => `${host}=${service.host}`);
  client = createWebPush({ hosts, ca: service.ca }).connect(createSecret());
});
beforeEach(() => {
  service.received.length = 0;
  service.respondWith(createHandler(201));
});
afterAll(async () => {
  await client?.close();
  await service?.stop();
});

const sendTo = (host: string, push = createPush()) =>
  client.prepare(push, () => true)(browser.address(`https://${host}/w/?token=1`));
const cachePolicies = () => service.received.map(({ headers }) => headers['x-wns-cache-policy']);

test('pushes to Windows say whether they may be stored; those to others do not', async () => {
  expect(await sendTo(WINDOWS)).toEqual({ kind: 'sent' });
  expect(await sendTo(WINDOWS, createPush({ nowOnly: true }))).toEqual({ kind: 'sent' });
  expect(await sendTo(WINDOWS, createPush({ expiresAt: new Date() }))).toEqual({ kind: 'sent' });
  for (const host of OTHERS) expect(await sendTo(host)).toEqual({ kind: 'sent' });
  expect(cachePolicies()).toEqual([
    'cache',
    'no-cache',
    'no-cache',
    ...OTHERS.map(() => undefined),
  ]);
  expect(service.received.slice(1, 3).map(({ headers }) => headers.ttl)).toEqual(['0', '0']);
});

test('Windows defers by 406, and its description is the detail', async () => {
  const description = { 'x-wns-error-description': 'Throttled' };
  service.respondWith(createHandler(406, { 'retry-after': '7', ...description }));
  expect(await sendTo(WINDOWS)).toEqual({
    kind: 'retry',
    scope: 'recipient',
    detail: '406 Throttled',
    afterMs: 7_000,
  });
});
