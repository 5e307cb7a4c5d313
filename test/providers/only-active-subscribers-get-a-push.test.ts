import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { splitTokens } from '../../packages/core/src/batch.ts';
import type { BatchDocument, DeviceDocument } from '../../packages/store/src/documents.ts';
import type { TestTenant } from '../support/api/tenants.ts';
import { getDeviceInfo, send } from '../support/end-to-end/pushes.ts';
import { type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';
import { type ProviderDevice, registerSimulatedBrowser } from '../support/providers/devices.ts';
import type { ProviderFixture } from '../support/providers/fixture.ts';
import { untilFinal } from '../support/providers/outcomes.ts';
import { useSharedProviders } from '../support/shared-stack.ts';
import { until } from '../support/until.ts';

const DAY_SECONDS = 86_400;
/** Beyond the time of a topic's page in the answer: the push waits for the fan-out. */
const GUARD = { timeoutMs: 60_000 };

let fixture: ProviderFixture;
let tenant: TestTenant;
beforeAll(async () => {
  fixture = await useSharedProviders();
  tenant = await fixture.tenant();
});
afterAll(() => fixture?.close());

const devices = () => fixture.store.db.collection<DeviceDocument>('devices');

/** Sets when a device was last seen. */
async function seen({ token }: { token: string }, secondsAgo: number): Promise<void> {
  const lastActiveAt = new Date(Date.now() - secondsAgo * 1_000);
  await devices().updateOne({ _id: token }, { $set: { lastActiveAt } });
}

async function subscribe(by: TestTenant, topic: string, some: readonly { token: string }[]) {
  for (const { token } of some)
    await by.api('POST', '/topics/subscribe', { token, topics: [topic] });
}

/** Waits until a push has been resolved, and returns its recipients. */
async function recipientsOf({ id }: { id: string }): Promise<string[]> {
  const isResolved = async () => (await fixture.store.pushes.find(tenant.app, id))?.fan.done;
  await until(async () => (await isResolved()) === true, GUARD);
  const batches = fixture.store.db.collection<BatchDocument>('batches');
  const found = await batches.find({ push: id }).toArray();
  return found.flatMap(({ work }) => splitTokens(work.tokens));
}

/** As the web client does at each start of a page whose browser is registered. */
async function visit({ token, auth }: ProviderDevice): Promise<void> {
  const response = await fetch(new URL('/devices/auth', tenant.dev.api), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ token, auth }),
  });
  expect(await response.json()).toEqual({ success: true });
}

async function connectSeenAt(secondsAgo: number): Promise<MqttDevice> {
  const device = await newMqttDevice(tenant.dev);
  await seen(device, 2 * DAY_SECONDS);
  await device.connect();
  const isRecorded = { _id: device.token, lastActiveAt: { $gt: new Date(Date.now() - 60_000) } };
  await until(async () => (await devices().findOne(isRecorded)) !== null, GUARD);
  await seen(device, secondsAgo);
  return device;
}

test('a push with active_within goes to subscribers that were seen since then or are connected, over each channel', async () => {
  const { sandbox } = fixture;
  const connected = await connectSeenAt(9 * DAY_SECONDS);
  const [recent, idle] = [await newMqttDevice(tenant.dev), await newMqttDevice(tenant.dev)];
  const browser = await registerSimulatedBrowser(tenant.dev, sandbox);
  const idleBrowser = await registerSimulatedBrowser(tenant.dev, sandbox);
  const visited = await registerSimulatedBrowser(tenant.dev, sandbox);
  await subscribe(tenant, 'news', [connected, recent, idle, browser, idleBrowser, visited]);
  for (const device of [recent, browser]) await seen(device, DAY_SECONDS - 600);
  for (const device of [idle, idleBrowser]) await seen(device, DAY_SECONDS + 1);

  await seen(visited, 9 * DAY_SECONDS);
  await visit(visited);

  const push = await send(tenant, '/topics/news', { active_within: DAY_SECONDS });
  expect(push.info.devices).toBe(6);
  const active = [connected, recent, browser, visited].map(({ token }) => token).sort();
  expect((await recipientsOf(push)).sort()).toEqual(active);
  expect((await connected.waitFor(1)).map(({ payload }) => payload)).toEqual([push.payload]);
  expect(await untilFinal(fixture.store, push, browser.token)).toEqual({ outcome: 'sent' });
  const hasPending = async ({ token }: { token: string }) =>
    (await getDeviceInfo(tenant, token)).pending_notifications.length;
  await until(async () => (await hasPending(recent)) === 1, GUARD);
  expect(await hasPending(idle)).toBe(0);

  const toAll = await send(tenant, '/topics/news', {});
  expect((await recipientsOf(toAll)).length).toBe(6);
  await connected.disconnect();
});

test('the time of a scheduled push counts from when it is sent', async () => {
  const [early, late] = [await newMqttDevice(tenant.dev), await newMqttDevice(tenant.dev)];
  await subscribe(tenant, 'later', [early, late]);
  const dueInSeconds = 5;
  await seen(early, 60 - dueInSeconds + 2);
  await seen(late, 10);
  const schedule = Math.ceil(Date.now() / 1_000) + dueInSeconds;
  const push = await send(tenant, '/topics/later', { active_within: 60, schedule });
  expect(await recipientsOf(push)).toEqual([late.token]);
});

test('a push for which nobody was seen ends without a recipient', async () => {
  const device = await newMqttDevice(tenant.dev);
  await subscribe(tenant, 'quiet', [device]);
  await seen(device, 2 * DAY_SECONDS);
  const push = await send(tenant, '/topics/quiet', { active_within: DAY_SECONDS });
  expect(await recipientsOf(push)).toEqual([]);
  const isFinished = async () =>
    (await fixture.store.pushes.find(tenant.app, push.id))?.state === 'finished';
  await until(isFinished, GUARD);
});

test('what a provider accepts is recorded with devices that were not seen for a day, in an app that prunes', async () => {
  const other = await fixture.tenant();
  await fixture.store.apps.updateSettings(tenant.app, { pruneAfterDays: 90 });
  const ends: [TestTenant, boolean][] = [
    [tenant, true],
    [other, false],
  ];
  for (const [by, isRecorded] of ends) {
    const browser = await registerSimulatedBrowser(by.dev, fixture.sandbox);
    await seen(browser, 5 * DAY_SECONDS);
    const isSeen = async () => {
      const push = await send(by, browser.token, {});
      expect(await untilFinal(fixture.store, push, browser.token)).toEqual({ outcome: 'sent' });
      const recently = new Date(Date.now() - 600_000);
      const filter = { _id: browser.token, lastActiveAt: { $gt: recently } };
      return (await devices().findOne(filter)) !== null;
    };
    // Workers know of the setting after half a minute.
    if (isRecorded) await until(isSeen, GUARD);
    else expect(await isSeen()).toBe(false);
  }
});
