import { WEBHOOK_LIMITS, type WebhookEvent } from '@carillon/core/webhooks';
import type { WebhookDocument } from '@carillon/store/documents';
import type { Store } from '@carillon/store/store';
import {
  addWebhook,
  editWebhook,
  listWebhooks,
  type ReplayRange,
  replayWebhook,
  rotateWebhookSecret,
  type WebhookView,
} from '@carillon/webhooks/manage-webhooks';
import type { WebhookStore } from '@carillon/webhooks/webhook-store';
import { AdminError } from './admin-error.ts';
import { requireApp } from './require-app.ts';

/** Maximum count of what is pending for a webhook: counting ends here, so that a list is cheap. */
export const MAX_PENDING_COUNTED = 100;

/** A webhook with what is not sent yet. */
export interface WebhookDetails extends WebhookView {
  /** Pushes, batches and devices that are not reported to it yet, at most {@link MAX_PENDING_COUNTED}. */
  pending: number;
}

/**
 * Creates a webhook of an app.
 *
 * @param address as `parseWebhookAddress` has parsed it
 * @param events all if absent
 * @returns the webhook and its secret, which is shown only now
 * @throws AdminError APP_NOT_FOUND, WEBHOOK_LIMIT_REACHED, BOX_KEY_MISSING
 */
export async function createWebhook(
  store: Pick<Store, 'apps'> & Pick<WebhookStore, 'webhooks'>,
  app: string,
  address: URL,
  events?: readonly WebhookEvent[],
): Promise<{ webhook: WebhookView; secret: string }> {
  await requireApp(store, app);
  const added = await addWebhook(store, app, address, events);
  if (added === 'limit')
    throw new AdminError(
      'WEBHOOK_LIMIT_REACHED',
      `The app has ${WEBHOOK_LIMITS.perApp} webhooks, which is the maximum: remove one first.`,
    );
  if (added === 'not-ready') throw boxKeyMissing();
  return added;
}

/**
 * Changes the address of a webhook, its events, or both. A new address begins without the failures of the one before;
 * the secret, and the record of reported events, stay.
 *
 * @param change address as `parseWebhookAddress` has parsed it
 * @throws AdminError WEBHOOK_NOT_FOUND, BOX_KEY_MISSING
 */
export async function changeWebhook(
  store: Pick<WebhookStore, 'webhooks'>,
  app: string,
  id: string,
  change: { address?: URL | undefined; events?: readonly WebhookEvent[] | undefined },
): Promise<WebhookView> {
  const changed = await editWebhook(store, app, id, change);
  if (changed === 'not-found') throw webhookNotFound(app, id);
  if (changed === 'not-ready') throw boxKeyMissing();
  return changed;
}

/**
 * Lists the webhooks of an app with what is pending for them, the oldest first.
 *
 * @throws AdminError APP_NOT_FOUND
 */
export async function listWebhookDetails(
  store: Pick<Store, 'apps'> & Pick<WebhookStore, 'webhooks' | 'outbox'>,
  app: string,
): Promise<WebhookDetails[]> {
  await requireApp(store, app);
  const webhooks = await listWebhooks(store, app);
  return Promise.all(
    webhooks.map(async (webhook) => ({
      ...webhook,
      pending: await store.outbox.countPending(webhook.id, MAX_PENDING_COUNTED),
    })),
  );
}

/**
 * Creates a new secret of a webhook; for a day, requests are signed with the previous one too.
 *
 * @returns the secret, which is shown only now
 * @throws AdminError WEBHOOK_NOT_FOUND, CONCURRENT_CHANGE
 */
export async function renewWebhookSecret(
  store: Pick<WebhookStore, 'webhooks'>,
  app: string,
  id: string,
): Promise<string> {
  const secret = await rotateWebhookSecret(store, app, id);
  if (secret !== undefined) return secret;
  await requireWebhook(store, app, id);
  throw new AdminError('CONCURRENT_CHANGE', 'The webhook was changed meanwhile. Try again.');
}

/**
 * Requests a test event, which is sent within seconds.
 *
 * @throws AdminError WEBHOOK_NOT_FOUND, WEBHOOK_IS_OFF
 */
export async function requestTestEvent(
  { webhooks }: Pick<WebhookStore, 'webhooks'>,
  app: string,
  id: string,
): Promise<void> {
  if (await webhooks.requestTest(app, id)) return;
  await requireWebhook({ webhooks }, app, id);
  throw new AdminError('WEBHOOK_IS_OFF', 'The webhook is off: turn it on first.');
}

/**
 * Marks the pushes of a time range to be reported again, as far as they are stored.
 *
 * @param maxMs time after which no further pushes are marked; all are marked if absent
 * @returns how many were marked, and if some are left, the last of them, for the next call
 * @throws AdminError WEBHOOK_NOT_FOUND
 */
export async function replayPushes(
  store: Pick<WebhookStore, 'webhooks' | 'outbox'>,
  app: string,
  id: string,
  range: ReplayRange & { maxMs?: number },
): Promise<{ pushes: number; last?: string }> {
  const { maxMs = Number.POSITIVE_INFINITY, after, ...times } = range;
  const startedAt = performance.now();
  let pushes = 0;
  let last = after;
  do {
    const marked = await replayWebhook(store, app, id, { ...times, after: last });
    if (marked === undefined) throw webhookNotFound(app, id);
    pushes += marked.pushes;
    last = marked.last;
  } while (last !== undefined && performance.now() - startedAt < maxMs);
  return { pushes, ...(last !== undefined && { last }) };
}

/**
 * Turns a webhook off; one that is off stays so.
 *
 * @throws AdminError WEBHOOK_NOT_FOUND
 */
export async function turnWebhookOff(
  { webhooks }: Pick<WebhookStore, 'webhooks'>,
  app: string,
  id: string,
): Promise<void> {
  if (!(await webhooks.turnOffOf(app, id))) await requireWebhook({ webhooks }, app, id);
}

/**
 * Turns a webhook on, and resets its failures.
 *
 * @throws AdminError WEBHOOK_NOT_FOUND
 */
export async function turnWebhookOn(
  { webhooks }: Pick<WebhookStore, 'webhooks'>,
  app: string,
  id: string,
): Promise<void> {
  if (!(await webhooks.turnOn(app, id))) throw webhookNotFound(app, id);
}

/**
 * Removes a webhook; unsent events are discarded.
 *
 * @throws AdminError WEBHOOK_NOT_FOUND
 */
export async function removeWebhook(
  { webhooks }: Pick<WebhookStore, 'webhooks'>,
  app: string,
  id: string,
): Promise<void> {
  if (!(await webhooks.remove(app, id))) throw webhookNotFound(app, id);
}

async function requireWebhook(
  { webhooks }: Pick<WebhookStore, 'webhooks'>,
  app: string,
  id: string,
): Promise<WebhookDocument> {
  const webhook = await webhooks.findOf(app, id);
  if (webhook === undefined) throw webhookNotFound(app, id);
  return webhook;
}

function boxKeyMissing(): AdminError {
  const text = 'No delivery worker that takes the queue webhook has run yet: start one.';
  return new AdminError('BOX_KEY_MISSING', text);
}

function webhookNotFound(app: string, id: string): AdminError {
  return new AdminError('WEBHOOK_NOT_FOUND', `App ${app} has no webhook ${id}.`);
}
