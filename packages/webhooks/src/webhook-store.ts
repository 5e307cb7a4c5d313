import type { Store } from '@carillon/store/store';
import { createOutbox } from './outbox.ts';
import { createWebhookRequests } from './requests.ts';
import { keepUnreported } from './unreported.ts';
import { createWebhooks } from './webhooks.ts';

/** The collections of webhooks over a store's connections. */
export type WebhookStore = ReturnType<typeof createWebhookStore>;

/** Creates the management of webhooks and their outbox over the connections of a store. */
export function createWebhookStore({ db, clock }: Pick<Store, 'db' | 'clock'>) {
  return {
    webhooks: createWebhooks(db, clock),
    webhookRequests: createWebhookRequests(db),
    outbox: {
      ...createOutbox(db, clock),
      keepUnreported: (ids: readonly string[]) => keepUnreported(db, ids),
    },
  };
}
