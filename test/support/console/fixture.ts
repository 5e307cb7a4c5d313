import { newRequestId } from '../../../packages/core/src/ids.ts';
import type { TestTenant } from '../api/tenants.ts';
import { send } from '../end-to-end/pushes.ts';
import { createTopicCalls } from '../guarantees/topic-calls.ts';
import { type MqttDevice, newMqttDevice } from '../mqtt-device.ts';
import { registerIphone } from '../providers/devices.ts';
import { openProviderFixture, type ProviderFixture } from '../providers/fixture.ts';
import { untilFinal } from '../providers/outcomes.ts';
import { openChromium } from '../web-push/browsers.ts';
import { openOwner } from './browser.ts';
import type { PageIds } from './pages.ts';

const TOPIC = 'news';
const RECEIVER = 'https://receiver.example/hook';

/** A stack with a console, and the browser of its first operator. */
export type ConsoleFixture = Awaited<ReturnType<typeof openConsole>>;

/** Starts a stack with a console and creates the first operator. */
export async function openConsole() {
  const fixture = await openProviderFixture({ dashboards: 1 });
  const { dev } = fixture.stack;
  const browser = await openChromium();
  const devices: MqttDevice[] = [];
  return {
    ...fixture,
    origin: dev.console ?? '',
    browser,
    owner: await openOwner(browser, dev.setup),
    /** Makes a tenant with devices, a topic, pushes of which one delivery failed, and a webhook. */
    async fill(): Promise<{ ids: PageIds; tenant: TestTenant }> {
      const tenant = await fixture.tenant();
      const device = await newMqttDevice(tenant.dev);
      devices.push(device);
      await device.connect();
      await createTopicCalls(() => tenant).subscribe(device.token, [TOPIC]);
      const push = await sendWithFailure(fixture, tenant, device);
      const { app } = tenant;
      const { status, json } = await tenant.api('POST', '/webhooks', { url: RECEIVER });
      if (status !== 200) throw new Error(`adding a webhook: ${status}`);
      await recordRequest(fixture, String((json.webhook as { id: string }).id));
      return { tenant, ids: { app, push, token: device.token, topic: TOPIC } };
    },
    async close(): Promise<void> {
      await browser.close();
      for (const device of devices) await device.disconnect();
      await fixture.close();
    },
  };
}

/** Records a request to a webhook, as if a receiver had answered. */
async function recordRequest({ store }: ProviderFixture, webhook: string): Promise<void> {
  await store.webhookRequests.record(webhook, [
    {
      ...{
        _id: newRequestId(Date.now()),
        webhook,
        at: new Date(),
        status: 404,
        milliseconds: 12,
        bytes: 120,
      },
      ...{ events: [`${webhook}.test.1`], types: [{ type: 'test', count: 1 }] },
      answer: `<h1>Not found</h1>\n${'no such path '.repeat(60)}`,
    },
  ]);
}

/** Sends a push that is delivered to a device, and refused for an iPhone. */
async function sendWithFailure(
  { sandbox, store }: ProviderFixture,
  tenant: TestTenant,
  device: MqttDevice,
): Promise<string> {
  const iphone = await registerIphone(tenant.dev);
  await sandbox.script('apns', iphone.address, [{ as: 'BadCollapseId' }]);
  await send(tenant, [device.token]);
  await send(tenant, `/topics/${TOPIC}`);
  const push = await send(tenant, [device.token, iphone.token]);
  for (const { token } of [device, iphone]) await untilFinal(store, push, token);
  return push.id;
}
