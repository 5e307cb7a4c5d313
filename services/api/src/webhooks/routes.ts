import { ApiError } from '@carillon/core/api-error';
import { invalidParameter, validate } from '@carillon/core/validate';
import type { Producers } from '@carillon/queue/producers';
import {
  addWebhook,
  editWebhook,
  listWebhooks,
  parseWebhookAddress,
  replayWebhook,
  rotateWebhookSecret,
} from '@carillon/webhooks/manage-webhooks';
import type { WebhookStore } from '@carillon/webhooks/webhook-store';
import type { RequestContext, Routing } from '../http/routing.ts';
import type { RouteRegistrar } from '../http/server.ts';
import { addWebhookRequest, editWebhookRequest, replayRequest } from './schema.ts';

const SUCCESS = { success: true } as const;
const BODY_BYTES = 16 * 1024;
/**
 * Additional response time of a replay: it may mark all batches of a push to a million devices, which takes seconds.
 */
const REPLAY_EXTRA_MS = 20_000;
/** Additional response time of a removal: a million devices may have events that were not reported. */
const REMOVE_EXTRA_MS = 20_000;

/** Registers the routes that manage an app's webhooks. */
export function webhookRoutes(
  routing: Routing,
  store: Pick<WebhookStore, 'webhooks' | 'outbox'>,
  producers: Pick<Producers, 'reportToWebhook'>,
): RouteRegistrar {
  const { webhooks } = store;
  const list = routing.withApiKey({}, async (_, { app }) => ({
    webhooks: await listWebhooks(store, app._id),
  }));
  const add = routing.withApiKey({ maxBodyBytes: BODY_BYTES }, ({ body }, { app }) =>
    handleAdd(store, app._id, body.value),
  );
  const edit = routing.withApiKey({ maxBodyBytes: BODY_BYTES }, ({ body, params }, { app }) =>
    handleEdit(store, app._id, params.id ?? '', body.value),
  );
  /** Wraps a change of one webhook that returns whether the app has it. */
  const change = (apply: (app: string, id: string) => Promise<boolean>, extraMs = 0) =>
    routing.withApiKey({ extraMs: () => extraMs }, async ({ params }, { app }) => {
      if (!(await apply(app._id, params.id ?? ''))) throw new ApiError('INVALID_WEBHOOK_ID');
      return SUCCESS;
    });
  const rotate = routing.withApiKey({}, async ({ params }, { app }) => {
    const secret = await rotateWebhookSecret(store, app._id, params.id ?? '');
    if (secret === undefined) throw new ApiError('INVALID_WEBHOOK_ID');
    return { secret };
  });
  const replay = routing.withApiKey(
    { maxBodyBytes: BODY_BYTES, extraMs: () => REPLAY_EXTRA_MS },
    (context, { app }) => handleReplay(store, app._id, context),
  );
  return (router) => {
    router.get('/webhooks', list);
    router.post('/webhooks', add);
    router.patch('/webhooks/:id', edit);
    router.delete('/webhooks/:id', change(webhooks.remove, REMOVE_EXTRA_MS));
    router.post('/webhooks/:id/rotate', rotate);
    router.post('/webhooks/:id/off', change(webhooks.turnOffOf));
    router.post('/webhooks/:id/on', change(webhooks.turnOn));
    router.post(
      '/webhooks/:id/test',
      change(async (app, id) => {
        const isRequested = await webhooks.requestTest(app, id);
        if (isRequested) void producers.reportToWebhook({ _id: id, app });
        return isRequested;
      }),
    );
    router.post('/webhooks/:id/replay', replay);
  };
}

/** Handles `POST /webhooks`. @throws ApiError INVALID_PARAM, WEBHOOK_LIMIT_EXCEEDED, SERVICE_UNAVAILABLE */
async function handleAdd(store: Pick<WebhookStore, 'webhooks'>, app: string, body: unknown) {
  const { url, events } = validate(addWebhookRequest, body);
  const added = await addWebhook(store, app, parseAddress(url), events);
  if (added === 'limit') throw new ApiError('WEBHOOK_LIMIT_EXCEEDED');
  if (added === 'not-ready') throw new ApiError('SERVICE_UNAVAILABLE');
  return added;
}

/** Handles `PATCH /webhooks/<webhook_id>`. @throws ApiError INVALID_PARAM, INVALID_WEBHOOK_ID, SERVICE_UNAVAILABLE */
async function handleEdit(
  store: Pick<WebhookStore, 'webhooks'>,
  app: string,
  id: string,
  body: unknown,
) {
  const { url, events } = validate(editWebhookRequest, body);
  const address = url === undefined ? undefined : parseAddress(url);
  const webhook = await editWebhook(store, app, id, { address, events });
  if (webhook === 'not-found') throw new ApiError('INVALID_WEBHOOK_ID');
  if (webhook === 'not-ready') throw new ApiError('SERVICE_UNAVAILABLE');
  return { webhook };
}

function parseAddress(url: string): URL {
  const address = parseWebhookAddress(url);
  if (address === undefined) throw invalidParameter('url', 'must be an https address');
  return address;
}

/** Handles `POST /webhooks/<webhook_id>/replay`. @throws ApiError INVALID_PARAM, INVALID_WEBHOOK_ID */
async function handleReplay(
  store: Pick<WebhookStore, 'webhooks' | 'outbox'>,
  app: string,
  { body, params }: RequestContext,
) {
  const { from, to, after } = validate(replayRequest, body.value);
  if (to <= from) throw invalidParameter('to', 'must be after `from`');
  const range = { fromMs: from * 1_000, toMs: to * 1_000, after };
  const replayed = await replayWebhook(store, app, params.id ?? '', range);
  if (replayed === undefined) throw new ApiError('INVALID_WEBHOOK_ID');
  return replayed;
}
