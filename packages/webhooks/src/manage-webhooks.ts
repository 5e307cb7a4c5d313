import { newObjectId, pushIdFrom } from '@carillon/core/ids';
import { sealBox } from '@carillon/core/sealed-box';
import { WEBHOOK_EVENTS, WEBHOOK_LIMITS, type WebhookEvent } from '@carillon/core/webhooks';
import type { WebhookDocument } from '@carillon/store/documents';
import { newWebhookSecret } from './signature.ts';
import type { WebhookStore } from './webhook-store.ts';

/** Time for which the secret before the newest one signs requests too. */
const ROTATION_OVERLAP_MS = 86_400_000;
/** Maximum pushes and recipients that one call of a replay marks; a single push may have more recipients. */
export const REPLAY_LIMITS = { pushes: 500, recipients: 50_000 } as const;

/** A webhook without its address and secrets, as its app's owner sees it. */
export interface WebhookView {
  id: string;
  /** Host of the address. The rest is not shown, because it often holds a secret. */
  host: string;
  events: WebhookEvent[];
  /** `failing`: the last request failed. */
  state: 'on' | 'failing' | 'off';
  /** Reason why it is off: by the operator or the app, by a 410, or after five days of failures. */
  reason?: 'operator' | 'gone' | 'failing';
  /** Time since which it is off. */
  offAt?: string;
  createdAt: string;
  /** Failed requests in a row. */
  failures?: number;
  failingSince?: string;
  retryAt?: string;
  /** The last response that was recorded: a status, or an error. */
  last?: { at: string; status?: number; error?: string };
  lastSuccessAt?: string;
  /** Time until which the secret before the newest one signs requests too; after a rotation. */
  previousSecretEndsAt?: string;
  /** Events that were removed with their push before they could be reported. */
  dropped?: number;
}

/** Reason why a webhook was not created. */
export type AddWebhookProblem = 'limit' | 'not-ready';

/** Parses an address; undefined if it can't be one. Its host is checked when a request is sent. */
export function parseWebhookAddress(text: string): URL | undefined {
  const url = text.length > WEBHOOK_LIMITS.addressCharacters ? null : URL.parse(text);
  if (url === null || url.username !== '' || url.password !== '') return undefined;
  return url.protocol === 'https:' || url.protocol === 'http:' ? url : undefined;
}

/**
 * Creates a webhook of an app.
 *
 * @returns the webhook and its secret, which is shown only now; `limit` if the app has as many as it may have,
 *   `not-ready` if no delivery worker has published the key that addresses are sealed with
 */
export async function addWebhook(
  { webhooks }: Pick<WebhookStore, 'webhooks'>,
  app: string,
  address: URL,
  events: readonly WebhookEvent[] = WEBHOOK_EVENTS,
): Promise<{ webhook: WebhookView; secret: string } | AddWebhookProblem> {
  const boxKey = await webhooks.findBoxKey();
  if (boxKey === undefined) return 'not-ready';
  const id = newObjectId();
  const secret = newWebhookSecret();
  const isCreated = await webhooks.create({
    ...{ _id: id, app, host: address.host, events: [...new Set(events)] },
    address: sealBox(boxKey, id, address.href),
    secret: sealBox(boxKey, id, secret),
  });
  if (!isCreated) return 'limit';
  const created = await webhooks.findOf(app, id);
  return created === undefined ? 'limit' : { webhook: toWebhookView(created), secret };
}

/**
 * Changes the address of a webhook, its events, or both. Its secret, and the record of reported events, stay.
 *
 * @returns the changed webhook; `not-found` if the app has no such webhook; `not-ready` as for {@link addWebhook}
 */
export async function editWebhook(
  { webhooks }: Pick<WebhookStore, 'webhooks'>,
  app: string,
  id: string,
  { address, events }: { address?: URL | undefined; events?: readonly WebhookEvent[] | undefined },
): Promise<WebhookView | 'not-found' | 'not-ready'> {
  const boxKey = address && (await webhooks.findBoxKey());
  if (address !== undefined && boxKey === undefined) return 'not-ready';
  const changed = await webhooks.change(app, id, {
    ...(events && { events: [...new Set(events)] }),
    ...(address &&
      boxKey && { address: { address: sealBox(boxKey, id, address.href), host: address.host } }),
  });
  return changed === undefined ? 'not-found' : toWebhookView(changed);
}

/** Lists an app's webhooks, the oldest first. */
export async function listWebhooks(
  { webhooks }: Pick<WebhookStore, 'webhooks'>,
  app: string,
): Promise<WebhookView[]> {
  return (await webhooks.list(app)).map(toWebhookView);
}

/**
 * Creates a new secret of a webhook of an app; for a day, requests are signed with the previous one too.
 *
 * @returns the secret, which is shown only now; undefined if the app has no such webhook or it was changed meanwhile
 */
export async function rotateWebhookSecret(
  { webhooks }: Pick<WebhookStore, 'webhooks'>,
  app: string,
  id: string,
): Promise<string | undefined> {
  const [webhook, boxKey] = [await webhooks.findOf(app, id), await webhooks.findBoxKey()];
  if (webhook === undefined || boxKey === undefined) return undefined;
  const secret = newWebhookSecret();
  const sealed = sealBox(boxKey, id, secret);
  return (await webhooks.rotate(webhook, sealed, ROTATION_OVERLAP_MS)) ? secret : undefined;
}

/** A time range of pushes to report again. */
export interface ReplayRange {
  /** Milliseconds since 1970. */
  fromMs: number;
  toMs: number;
  /** The last push of the call before. */
  after?: string | undefined;
}

/**
 * Marks pushes of a time range to be reported again, from their oldest on, a few at a time.
 *
 * @returns how many were marked, and for the next call the last of them, unless all are done; undefined if the app has
 *   no such webhook
 */
export async function replayWebhook(
  { webhooks, outbox }: Pick<WebhookStore, 'webhooks' | 'outbox'>,
  app: string,
  id: string,
  { fromMs, toMs, after }: ReplayRange,
): Promise<{ pushes: number; last?: string } | undefined> {
  const webhook = await webhooks.findOf(app, id);
  if (webhook === undefined) return undefined;
  const from = after ?? pushIdFrom(fromMs);
  return outbox.replay(webhook, { from, to: pushIdFrom(toMs) }, REPLAY_LIMITS);
}

/** Converts a webhook to what its app's owner may see. */
function toWebhookView(document: WebhookDocument): WebhookView {
  const { _id, host, events, createdAt, off, failures, failingSince, retryAt } = document;
  const { last, lastSuccessAt, dropped } = document;
  const previousSecretEndsAt = document.secrets[1]?.endsAt;
  const onState = failures === undefined ? 'on' : 'failing';
  return {
    ...{ id: _id, host, events, state: off === undefined ? onState : 'off' },
    ...(off !== undefined && { reason: off.reason, offAt: off.at.toISOString() }),
    createdAt: createdAt.toISOString(),
    ...(failures !== undefined && { failures }),
    ...(failingSince !== undefined && { failingSince: failingSince.toISOString() }),
    ...(retryAt !== undefined && { retryAt: retryAt.toISOString() }),
    ...(last !== undefined && { last: { ...last, at: last.at.toISOString() } }),
    ...(lastSuccessAt !== undefined && { lastSuccessAt: lastSuccessAt.toISOString() }),
    ...(previousSecretEndsAt !== undefined && {
      previousSecretEndsAt: previousSecretEndsAt.toISOString(),
    }),
    ...(dropped !== undefined && { dropped }),
  };
}
