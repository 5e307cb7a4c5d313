import {
  type ReceivedRequest,
  type Responder,
  startReceiver,
} from '../../../packages/webhooks/test/receiver.ts';
import { registerDevice } from '../register-device.ts';
import { until } from '../until.ts';
import type { TestTenant } from './tenants.ts';

/** An event that a webhook got. */
type ReceivedEvent = ReceivedRequest['events'][number];

/** A webhook of a tenant, and the receiver that it sends to. */
export interface WebhookReceiver {
  id: string;
  secret: string;
  /** Requests so far, including those that got an error or no response. */
  requests(): readonly ReceivedRequest[];
  /** Events of all requests, each as often as it has arrived. */
  events(type?: string): ReceivedEvent[];
  respondWith(responder: Responder): void;
  /** Requests with a wrong signature. */
  forged(): number;
  /** Requests with another app than the tenant's. */
  foreign(): number;
  stop(): Promise<void>;
}

/** Registers and deletes devices until one is reported: then the stack's API, of which there is one, knows the webhook. */
export async function untilKnown(
  { api, dev }: Pick<TestTenant, 'api' | 'dev'>,
  { requests }: Pick<WebhookReceiver, 'requests'>,
): Promise<void> {
  const tokens = new Set<unknown>();
  const isReported = async () => {
    const { token } = await registerDevice(dev);
    tokens.add(token);
    await api('DELETE', `/devices/${token}`);
    return requests().some(({ events }) => events.some(({ data }) => tokens.has(data.token)));
  };
  await until(isReported, { everyMs: 500, what: 'an event of a device' });
}

/**
 * Adds a webhook to a tenant through the API, and waits until it is known.
 *
 * @param path of its address
 */
export async function addReceiver(
  tenant: Pick<TestTenant, 'app' | 'api' | 'dev'>,
  path = '/hook',
): Promise<WebhookReceiver> {
  const { app, api } = tenant;
  // The secret is known only after the address: a placeholder keeps the port.
  const placeholder = await startReceiver('whsec_AAAA');
  const { port } = placeholder;
  await placeholder.stop();
  const url = `http://127.0.0.1:${port}${path}`;
  const { json, text } = await api<{ webhook?: { id: string }; secret: string }>(
    'POST',
    '/webhooks',
    { url },
  );
  if (json.webhook === undefined) throw new Error(`the webhook was not added: ${text}`);
  const receiver = await startReceiver(json.secret, port);
  await untilKnown(tenant, { requests: () => receiver.requests });
  return {
    id: json.webhook.id,
    secret: json.secret,
    requests: () => receiver.requests,
    events: (type) =>
      receiver.requests
        .flatMap(({ events }) => events)
        .filter((event) => type === undefined || event.type === type),
    respondWith: receiver.respondWith,
    forged: () => receiver.forged,
    foreign: () => receiver.requests.filter((request) => request.app !== app).length,
    stop: receiver.stop,
  };
}

/**
 * Returns the outcomes that a webhook got for each recipient of a push, without repetitions: the final ones, or those that
 * were reported before they were known to be final and did not change.
 */
export function reportedOutcomes(webhook: WebhookReceiver, push: string): Map<string, Set<string>> {
  const recipients = webhook
    .events()
    .filter(({ type, data }) => data.push === push && type.startsWith('recipient.'));
  const outcomes = new Map<string, Set<string>>();
  for (const [token, events] of Map.groupBy(recipients, ({ data }) => String(data.token))) {
    const final = events.filter(({ data }) => data.final === true);
    const types = (final.length > 0 ? final : events).map(({ type }) => type);
    outcomes.set(token, new Set(types.map((type) => type.slice('recipient.'.length))));
  }
  return outcomes;
}
