import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { getDeviceInfo, send } from '../support/end-to-end/pushes.ts';
import { type ElectronApp, startElectronApp } from '../support/official-clients/electron-app.ts';
import { type SharedStack, useSharedStack } from '../support/shared-stack.ts';
import { until } from '../support/until.ts';

let stack: SharedStack;
let folder: string;
const apps: ElectronApp[] = [];
beforeAll(async () => {
  stack = await useSharedStack();
  folder = await mkdtemp(join(tmpdir(), 'carillon-electron-'));
});
afterEach(async () => {
  for (const app of apps.splice(0)) await app.quit();
});
afterAll(async () => {
  await rm(folder, { recursive: true, force: true });
});

/** Starts the app of a user; the same name is the same installation. */
async function start(user: string): Promise<ElectronApp> {
  const app = await startElectronApp(join(folder, user), stack.dev);
  apps.push(app);
  return app;
}

function register(app: ElectronApp): Promise<string> {
  return app.call<string>('register', { appId: stack.dev.app });
}

test('it registers, connects, and its listener gets the payload', async () => {
  const app = await start('ann');
  const token = await register(app);
  await until(() => app.connected);
  expect((await getDeviceInfo(stack, token)).device.platform).toBe('electron');
  expect((await getDeviceInfo(stack, token)).presence.online).toBe(true);
  const data = { message: 'Grüße 👋', list: [1, 2.5, null], deep: { a: 'b' } };
  await send(stack, token, { data });
  await until(() => app.payloads.length === 1);
  expect(app.payloads).toEqual([data]);
});

test('it subscribes to topics and gets pushes to them', async () => {
  const app = await start('bob');
  const token = await register(app);
  await until(() => app.connected);
  await app.call('subscribe', ['sport', 'bob-only']);
  await app.call('subscribe', 'weather');
  expect((await getDeviceInfo(stack, token)).subscriptions).toEqual([
    'bob-only',
    'sport',
    'weather',
  ]);
  await send(stack, '/topics/bob-only', { data: { n: 1 } });
  await until(() => app.payloads.length === 1);
  await app.call('unsubscribe', ['*']);
  expect((await getDeviceInfo(stack, token)).subscriptions).toEqual([]);
});

test('after a restart it keeps its token and gets pushes sent meanwhile', async () => {
  const before = await start('eve');
  const token = await register(before);
  await until(() => before.connected);
  await before.quit();
  await until(async () => !(await getDeviceInfo(stack, token)).presence.online);
  await send(stack, token, { data: { meanwhile: true } });
  const after = await start('eve');
  expect(await register(after)).toBe(token);
  await until(() => after.payloads.length === 1);
  expect(after.payloads).toEqual([{ meanwhile: true }]);
});

test('the app gets the text of an error', async () => {
  const app = await start('joe');
  const refused = app.call('register', { appId: 'f'.repeat(24) });
  await expect(refused).rejects.toThrow('The app ID provided is invalid.');
  await register(app);
  await expect(app.call('subscribe', ['not a name'])).rejects.toThrow('"topics[0]" must match');
});
