import { randomBytes } from 'node:crypto';
import { send } from '../end-to-end/pushes.ts';
import { type Credentials, registerDevice } from '../register-device.ts';
import { until } from '../until.ts';
import type { TestTenant } from './tenants.ts';

/** One object of each kind that an app can have. */
export interface TenantResources {
  device: Credentials;
  /** A topic that the device is subscribed to. */
  topic: string;
  /** A push that is pending for the device. */
  push: string;
  scheduled: string;
  webhook: string;
  /** A text that is in the payloads, the topic, and the webhook's address, and nowhere else. */
  mark: string;
}

type Caller = Pick<TestTenant, 'api' | 'dev'>;

/** Creates one object of each kind that an app can have. A host that ends in `.invalid` does not exist (RFC 2606). */
export async function createResources(tenant: Caller): Promise<TenantResources> {
  const mark = `mark${randomBytes(9).toString('hex')}`;
  const topic = `topic-${mark}`;
  const device = await registerDevice(tenant.dev);
  await tenant.api('POST', '/topics/subscribe', { token: device.token, topics: [topic] });
  const { id: push } = await send(tenant, device.token, { data: { mark } });
  const schedule = Math.floor(Date.now() / 1_000) + 7_200;
  const { id: scheduled } = await send(tenant, device.token, { schedule, data: { mark } });
  return { device, topic, push, scheduled, webhook: await createWebhook(tenant, mark), mark };
}

/** Creates a webhook as soon as a delivery worker has published the key that addresses are sealed with. */
export function createWebhook(tenant: Caller, mark: string): Promise<string> {
  const url = `https://${mark}.carillon.invalid/${mark}`;
  const add = async () => {
    const { json } = await tenant.api<{ webhook?: { id: string } }>('POST', '/webhooks', { url });
    return json.webhook?.id;
  };
  return until(add, { what: 'a webhook' });
}

/** Times that pass, and what a webhook's receiver that does not exist changes. */
const VOLATILE = /^(?:seconds_ago|last|failures|failingSince|retryAt|state|reason)$/;

/** Reads all that an app has, as texts by the path that they come from. What changes by itself is left out. */
export async function readEverything(
  { dev }: Pick<TestTenant, 'dev'>,
  { device, topic, push, scheduled }: TenantResources,
): Promise<Record<string, string>> {
  const paths = [
    ...[`/devices/${device.token}`, `/pushes/${push}`, `/pushes/${scheduled}`],
    ...[`/pushes/${push}/outcomes`, `/pushes/${push}/recipients`, '/pushes', '/webhooks'],
    ...['/topics', `/topics/${topic}`, '/export/devices', '/export/subscriptions'],
  ];
  const texts: Record<string, string> = {};
  for (const path of paths) {
    const headers = { authorization: `Bearer ${dev.apiKey}` };
    const text = await (await fetch(new URL(path, dev.api), { headers })).text();
    texts[path] = path.startsWith('/export') ? text : omitVolatile(text);
  }
  return texts;
}

function omitVolatile(text: string): string {
  return JSON.stringify(
    JSON.parse(text, (name, value) => (VOLATILE.test(name) ? undefined : value)),
  );
}
