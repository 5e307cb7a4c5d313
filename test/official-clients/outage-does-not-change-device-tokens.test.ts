import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { postWithoutKey } from '../support/api/keyless-calls.ts';
import { ONLY_API } from '../support/api/only-api.ts';
import { getDeviceInfo } from '../support/end-to-end/pushes.ts';
import { openMongo } from '../support/mongo.ts';
import { type ElectronApp, startElectronApp } from '../support/official-clients/electron-app.ts';
import { registerDevice } from '../support/register-device.ts';
import { type Stack, startStack } from '../support/stack.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { until } from '../support/until.ts';

const CUT_MS = 300;
/** Each takes some seconds while MongoDB is unavailable. */
const STARTS = 5;

/** Only its MongoDB is used: the other stack reaches it through the proxy. */
let database: Stack;
let proxy: TcpProxy;
let stack: Stack;
let folder: string;
let app: ElectronApp;
let token: string;
beforeAll(async () => {
  database = await startStack({ ...ONLY_API, apis: 0, ownMongodb: true });
  const uri = new URL(database.dev.mongodb);
  proxy = await startTcpProxy(Number(uri.port));
  uri.port = String(proxy.port);
  stack = await startStack({ env: { MONGODB_URI: uri.href } });
  folder = await mkdtemp(join(tmpdir(), 'carillon-electron-'));
  app = await startElectronApp(folder, stack.dev);
  token = await app.call('register', { appId: stack.dev.app });
});
afterAll(async () => {
  await app?.quit();
  await stack?.stop();
  await proxy?.stop();
  await database?.stop();
  await rm(folder, { recursive: true, force: true });
});

test('a cut of 300 ms: an app that starts meanwhile keeps its token', async () => {
  await until(() => app.connected);
  const other = await registerDevice(stack.dev);
  proxy.cut();
  const during = [
    app.call('register', { appId: stack.dev.app }),
    postWithoutKey(stack.dev.api, '/devices/auth', { ...other, sdk: 1 }),
  ] as const;
  await sleep(CUT_MS);
  proxy.restore();
  expect(await during[0]).toBe(token);
  expect((await during[1]).status).toBe(200);
  await until(async () => (await getDeviceInfo(stack, token)).presence.online);
});

test('MongoDB unavailable: an app that starts again and again keeps its token, and no device is added', async () => {
  const mongo = await openMongo(database.dev);
  const countDevices = () => mongo.db.collection('devices').countDocuments({});
  try {
    const before = await countDevices();
    const start = () => app.call('register', { appId: stack.dev.app }).catch(() => undefined);
    proxy.cut();
    const starts: unknown[] = [];
    for (let n = 0; n < STARTS; n += 1) starts.push(await start());
    expect(starts.filter((one) => one !== undefined && one !== token)).toEqual([]);
    proxy.restore();
    await until(async () => (await start()) === token, { timeoutMs: 30_000, what: 'the token' });
    expect(await countDevices()).toBe(before);
    await until(async () => (await getDeviceInfo(stack, token)).presence.online);
  } finally {
    await mongo.close();
  }
});

test('after a failure no app can register for a minute, whatever its credentials', async () => {
  const wrong = { token, auth: '0'.repeat(64), sdk: 1 };
  const check = () => postWithoutKey(stack.dev.api, '/devices/auth', wrong);
  proxy.cut();
  await until(async () => (await check()).status === 503);
  proxy.restore();
  await until(async () => (await check()).status === 400);
  const fresh = { appId: stack.dev.app, platform: 'electron', sdk: 1 };
  const refused = await postWithoutKey(stack.dev.api, '/register', fresh);
  expect(refused).toMatchObject({ status: 503, json: { code: 'SERVICE_UNAVAILABLE' } });
  await app.call('setDeviceCredentials', token, wrong.auth);
  await expect(app.call('register', { appId: stack.dev.app })).rejects.toThrow('unavailable');
});
