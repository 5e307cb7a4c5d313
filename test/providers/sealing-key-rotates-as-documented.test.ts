import { randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { freePort } from '../../packages/presence/test/start-server.ts';
import { callWithoutKey } from '../support/api/keyless-calls.ts';
import { withStore } from '../support/api/tenants.ts';
import { runCarillonJson } from '../support/carillon.ts';
import { send } from '../support/end-to-end/pushes.ts';
import { createTestHome, type NpmStart, type TestHome } from '../support/first-run/test-home.ts';
import {
  type ProviderDevice,
  registerAndroidByFcm,
  registerIphone,
  registerSimulatedBrowser,
} from '../support/providers/devices.ts';
import { openSandbox } from '../support/providers/sandbox.ts';
import { type OwnSandbox, startOwnSandbox } from '../support/providers/sandbox-process.ts';
import { callApi } from '../support/stack/call-api.ts';
import type { Dev } from '../support/stack/dev-file.ts';
import { until } from '../support/until.ts';

const CHANNELS = ['apns', 'fcm', 'web-push'] as const;

let testHome: TestHome;
let start: NpmStart;
let dev: Dev;
/** The browsers' push service lives on while the stack and its own sandbox are started again. */
let pushService: OwnSandbox;
let devices: ProviderDevice[];
beforeAll(async () => {
  const webPush = `127.0.0.1:${await freePort()}`;
  testHome = await createTestHome({ env: { WEB_PUSH_HOSTS: webPush } });
  start = testHome.start();
  dev = await start.ready();
  pushService = await startOwnSandbox({ filesOf: join(testHome.home, 'sandbox'), webPush });
  await withStore({ dev }, ({ apps }) => apps.updateSettings(dev.app, { fcm: 0 }));
  devices = [
    await registerIphone(dev),
    await registerAndroidByFcm(dev),
    await registerSimulatedBrowser(dev, pushService, await publicKey()),
  ];
});
afterAll(async () => {
  await pushService?.stop();
  await testHome?.remove();
});

test('a push goes over APNs, FCM and Web Push before, at each step, and after', async () => {
  await expectSent();
  const [old] = keysOf(testHome);
  const fresh = `2:${randomBytes(32).toString('hex')}`;

  await changeKeys(`${fresh},${old}`);
  await expectSent();
  expect(await runCarillonJson(testHome.home, 'credential', 'reseal')).toEqual({
    key: 2,
    resealed: 3,
    unchanged: 0,
    failed: [],
  });
  await expectSent();
  const again = await runCarillonJson(testHome.home, 'credential', 'reseal');
  expect(again).toMatchObject({ resealed: 0, unchanged: 3 });

  await changeKeys(fresh);
  await expectSent();
}, 240_000);

function keysOf({ home }: TestHome): string[] {
  const { credentialKeys } = JSON.parse(readFileSync(join(home, 'secrets.json'), 'utf8')) as {
    credentialKeys: string;
  };
  return credentialKeys.split(',');
}

/** Does what the operator does: edits the file and starts the stack again. */
async function changeKeys(credentialKeys: string): Promise<void> {
  const path = join(testHome.home, 'secrets.json');
  const secrets = JSON.parse(readFileSync(path, 'utf8')) as object;
  writeFileSync(path, JSON.stringify({ ...secrets, credentialKeys }, null, 2));
  start.signal('SIGINT');
  await start.exit();
  start = testHome.start();
  dev = await start.ready();
}

async function publicKey(): Promise<string> {
  const { json } = await callWithoutKey(dev.api, `/web-push/public-key?appId=${dev.app}`);
  return `${json.publicKey}`;
}

/** Sends to all three, and waits until each provider has taken it. */
async function expectSent(): Promise<void> {
  const api: Parameters<typeof send>[0]['api'] = (method, path, body) =>
    callApi(dev, method, path, body);
  const tokens = devices.map(({ token }) => token);
  const push = await send({ api }, tokens, { time_to_live: 60 });
  const took = async () => {
    const sandboxes = [openSandbox(dev.sandbox), pushService];
    const received = await Promise.all(sandboxes.map((one) => one.received(push.id)));
    const good = received.flat().filter(({ status }) => status === 200 || status === 201);
    return good.map(({ channel }) => channel).sort();
  };
  await until(async () => (await took()).length === CHANNELS.length, {
    timeoutMs: 60_000,
    what: `${push.id} is accepted by all providers`,
  });
  expect(await took()).toEqual(CHANNELS);
}
