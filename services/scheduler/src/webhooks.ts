import type { Producers } from '@carillon/queue/producers';
import type { Metrics } from '@carillon/runtime/metrics';
import type { KnownWebhooks } from '@carillon/store/known-webhooks';
import type { WebhookStore } from '@carillon/webhooks/webhook-store';

/** Maximum webhooks checked in one tick; the next tick continues with the others. */
const WEBHOOKS_PER_TICK = 500;

/**
 * Creates the tick that adds a job for each webhook with something due. Without webhooks it reads nothing. No
 * other process adds these jobs: they wait for the next tick, so that the events of many pushes share a request.
 *
 * @returns the number of jobs that the tick has added
 */
export function createWebhookTick(
  knownWebhooks: Pick<KnownWebhooks, 'listReady' | 'listRequested'>,
  { outbox }: Pick<WebhookStore, 'outbox'>,
  producers: Pick<Producers, 'reportToWebhook'>,
): () => Promise<number> {
  let lastId = '';

  /** Returns the next webhooks in order of id. */
  function takeNext(): { _id: string; app: string }[] {
    const ready = knownWebhooks.listReady();
    const next = ready.filter(({ _id }) => _id > lastId).slice(0, WEBHOOKS_PER_TICK);
    lastId = next.length < WEBHOOKS_PER_TICK ? '' : (next.at(-1)?._id ?? '');
    return next;
  }

  return async () => {
    const next = takeNext();
    const due = new Set(await outbox.filterDue(next.map(({ _id }) => _id)));
    const requested = knownWebhooks.listRequested();
    const isRequested = new Set(requested.map(({ _id }) => _id));
    const found = next.filter(({ _id }) => due.has(_id) && !isRequested.has(_id));
    await Promise.all([...found, ...requested].map(producers.reportToWebhook));
    return found.length + requested.length;
  };
}

/** Exports the number of webhooks by state. Reads MongoDB once for each scrape. */
export function exportWebhooks(
  metrics: Metrics,
  { webhooks }: Pick<WebhookStore, 'webhooks'>,
): void {
  metrics.createGauge('carillon_webhooks', async () =>
    Object.entries(await webhooks.countByState()).map(([state, value]) => ({
      labels: { state },
      value,
    })),
  );
}
