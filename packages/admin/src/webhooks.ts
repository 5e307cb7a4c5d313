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
import type { WebhookRequestDocument } from '@carillon/webhooks/requests';
import { rebuildEvents } from '@carillon/webhooks/resend';
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

/** A request to a webhook, and its response. */
export interface WebhookRequestView {
  id: string;
  /** When it was sent, ISO 8601. */
  at: string;
  status?: number;
  /** Reason why there was no response. */
  error?: string;
  /** Until the response's headers. */
  milliseconds: number;
  /** Number of its events. */
  events: number;
  types: { type: string; count: number }[];
  /** Size of its body. */
  bytes: number;
  /** Absent for a test event and for a request that was sent again. */
  attempt?: number;
  /** The request that it repeats. */
  resendOf?: string;
  /** Start of the response's body, at most 1,024 bytes of it. It may hold secrets of the receiver. */
  answer?: string;
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
  throw webhookIsOff();
}

/**
 * Lists the last hundred requests to a webhook, the newest first.
 *
 * @throws AdminError WEBHOOK_NOT_FOUND
 */
export async function listWebhookRequests(
  store: Pick<WebhookStore, 'webhooks' | 'webhookRequests'>,
  app: string,
  id: string,
): Promise<WebhookRequestView[]> {
  await requireWebhook(store, app, id);
  return (await store.webhookRequests.list(id)).map(toRequestView);
}

/**
 * Has a worker send a request again, once: its events, as far as they are stored, with the same ids and a new signature.
 *
 * @throws AdminError WEBHOOK_NOT_FOUND, REQUEST_NOT_FOUND, EVENTS_NOT_STORED, WEBHOOK_IS_OFF, RESEND_PENDING
 */
export async function resendRequest(
  store: Pick<WebhookStore, 'webhooks' | 'webhookRequests' | 'outbox'>,
  app: string,
  id: string,
  request: string,
): Promise<void> {
  const webhook = await requireWebhook(store, app, id);
  const found = await store.webhookRequests.find(id, request);
  if (found === undefined)
    throw new AdminError('REQUEST_NOT_FOUND', `Webhook ${id} has no request ${request}.`);
  if ((await rebuildEvents(store, webhook, found)).length === 0) throw eventsNotStored();
  if (await store.webhooks.requestResend(app, id, request)) return;
  const { off } = await requireWebhook(store, app, id);
  if (off !== undefined) throw webhookIsOff();
  throw new AdminError('RESEND_PENDING', 'Another request waits to be sent again: try again soon.');
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

function toRequestView(document: WebhookRequestDocument): WebhookRequestView {
  const { _id: id, at, status, error, milliseconds, events, types, bytes } = document;
  const { attempt, resendOf, answer } = document;
  return {
    ...{ id, at: at.toISOString() },
    ...(status !== undefined && { status }),
    ...(error !== undefined && { error }),
    ...{ milliseconds, events: events.length, types, bytes },
    ...(attempt !== undefined && { attempt }),
    ...(resendOf !== undefined && { resendOf }),
    ...(answer !== undefined && { answer }),
  };
}

function webhookIsOff(): AdminError {
  return new AdminError('WEBHOOK_IS_OFF', 'The webhook is off: turn it on first.');
}

function eventsNotStored(): AdminError {
  const text = 'The pushes or devices of the request are no longer stored, or have changed since.';
  return new AdminError('EVENTS_NOT_STORED', text);
}

function webhookNotFound(app: string, id: string): AdminError {
  return new AdminError('WEBHOOK_NOT_FOUND', `App ${app} has no webhook ${id}.`);
}
