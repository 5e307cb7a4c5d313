import { boxKeyOf } from '@carillon/core/sealed-box';
import type { SealingKeys } from '@carillon/core/sealing';
import type { WorkerQueue } from '@carillon/queue/jobs';
import type { ServiceContext } from '@carillon/runtime/service';
import type { Store } from '@carillon/store/store';
import { createAddressCircuits } from '@carillon/webhooks/address-circuits';
import type { AllowedHosts } from '@carillon/webhooks/allowed-hosts';
import { createWebhookClient } from '@carillon/webhooks/client';
import { reportToWebhook } from '@carillon/webhooks/report-webhook';
import { createWebhookStore } from '@carillon/webhooks/webhook-store';

/** Settings of webhooks. */
interface WebhookSettings {
  QUEUES: readonly WorkerQueue[];
  CREDENTIAL_KEYS?: SealingKeys | undefined;
  WEBHOOK_HOSTS: AllowedHosts;
  WEBHOOK_CA?: string | undefined;
}

/**
 * Creates the function that reports due events to a webhook, and saves the public key that addresses are sealed with.
 *
 * @returns undefined if the process takes no jobs of webhooks
 */
export async function openWebhooks(
  env: WebhookSettings,
  { log, metrics, release }: Pick<ServiceContext, 'log' | 'metrics' | 'release'>,
  store: Store,
  isStopping: () => boolean,
): Promise<((webhook: string) => Promise<void>) | undefined> {
  const { CREDENTIAL_KEYS: keys } = env;
  if (keys === undefined || !env.QUEUES.includes('webhook')) return undefined;
  const webhookStore = createWebhookStore(store);
  await webhookStore.webhooks.putBoxKey(boxKeyOf(keys));
  const client = createWebhookClient({ hosts: env.WEBHOOK_HOSTS, ca: env.WEBHOOK_CA });
  release('webhooks', async () => client.close());
  const requestsCounter = metrics.createCounter('carillon_webhook_requests_total');
  const eventsCounter = metrics.createCounter('carillon_webhook_events_total');
  const resources = {
    store: { ...webhookStore, suspensions: store.suspensions, clock: store.clock },
    ...{ client, keys, isStopping },
    circuits: createAddressCircuits(() => performance.now(), Math.random),
    random: Math.random,
    onRequest(result: 'accepted' | 'failed' | 'gone', events: number): void {
      requestsCounter.add(1, { result });
      if (events > 0) eventsCounter.add(events);
    },
    onUnrecorded: (err: unknown) => log.warn({ err }, 'requests of a webhook were not recorded'),
  };
  return async (webhook) => {
    const startedAt = performance.now();
    const result = await reportToWebhook(resources, webhook);
    if (result.requests === 0) return;
    log.info({ ...result, ms: Math.round(performance.now() - startedAt) }, 'webhook');
  };
}
