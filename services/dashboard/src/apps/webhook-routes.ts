import {
  changeWebhook,
  createWebhook,
  listWebhookDetails,
  listWebhookRequests,
  MAX_PENDING_COUNTED,
  removeWebhook,
  renewWebhookSecret,
  replayPushes,
  requestTestEvent,
  resendRequest,
  turnWebhookOff,
  turnWebhookOn,
} from '@carillon/admin/webhooks';
import { WEBHOOK_EVENTS, WEBHOOK_LIMITS } from '@carillon/core/webhooks';
import type { Producers } from '@carillon/queue/producers';
import type { Store } from '@carillon/store/store';
import { parseWebhookAddress } from '@carillon/webhooks/manage-webhooks';
import type { WebhookStore } from '@carillon/webhooks/webhook-store';
import { z } from 'zod';
import { objectId } from '../http/inputs.ts';
import { defineRoute, hasRole } from '../http/route.ts';
import { time } from '../inputs.ts';
import { createAccountOfApp } from './app-routes.ts';

/** Maximum duration of a replay's request: the operator sees the progress between two of them. */
const REPLAY_MS = 2_000;

const events = z.array(z.enum(WEBHOOK_EVENTS)).min(1);
const ofApp = z.object({ app: objectId });
const ofWebhook = ofApp.extend({ id: objectId });

const address = z.string().transform((text, context): URL => {
  const url = parseWebhookAddress(text.trim());
  if (url !== undefined) return url;
  context.addIssue({ code: 'custom', message: 'Give an https address.' });
  return z.NEVER;
});

const editFields = ofWebhook
  .extend({ url: address.optional(), events: events.optional() })
  .refine((fields) => fields.url !== undefined || fields.events !== undefined, {
    path: ['url'],
    message: 'Give an address or events.',
  });

const replayFields = ofWebhook
  .extend({ from: time, to: time, after: objectId.optional() })
  .refine(({ from, to }) => from < to, {
    path: ['to'],
    message: 'The range ends before it begins.',
  });

/**
 * Returns the routes of an app's webhooks. A secret is in the response to the request that creates it, and nowhere
 * else; of an address only the host is returned, because the rest often holds a secret.
 */
export function webhookRoutes(
  store: Pick<Store, 'apps'> & WebhookStore,
  producers: Pick<Producers, 'reportToWebhook'>,
) {
  const account = createAccountOfApp(store);
  return [
    defineRoute({
      method: 'get',
      path: '/apps/:app/webhooks',
      isPublic: true,
      role: 'viewer',
      account,
      input: ofApp,
      handle: async ({ input }) => ({
        items: await listWebhookDetails(store, input.app),
        eventNames: WEBHOOK_EVENTS,
        /** Webhooks that an app may have. */
        limit: WEBHOOK_LIMITS.perApp,
        maxPendingCounted: MAX_PENDING_COUNTED,
      }),
    }),
    defineRoute({
      method: 'post',
      path: '/apps/:app/webhooks',
      isPublic: true,
      role: 'admin',
      account,
      input: ofApp.extend({ url: address, events }),
      audit: 'webhook.add',
      auditFacts: ({ url, events }) => ({ host: url.host, events: events.join(', ') }),
      async handle({ input: { app, url, events } }) {
        const { webhook, secret } = await createWebhook(store, app, url, events);
        return { id: webhook.id, webhook, secret };
      },
    }),
    defineRoute({
      method: 'patch',
      path: '/apps/:app/webhooks/:id',
      isPublic: true,
      role: 'admin',
      account,
      input: editFields,
      audit: 'webhook.edit',
      auditFacts: (change) => ({
        ...(change.url && { host: change.url.host }),
        ...(change.events && { events: change.events.join(', ') }),
      }),
      handle: ({ input: { app, id, url, events: names } }) =>
        changeWebhook(store, app, id, { address: url, events: names }),
    }),
    defineRoute({
      method: 'post',
      path: '/apps/:app/webhooks/:id/rotate',
      isPublic: true,
      role: 'admin',
      account,
      input: ofWebhook,
      audit: 'webhook.rotate',
      handle: async ({ input: { app, id } }) => ({
        secret: await renewWebhookSecret(store, app, id),
      }),
    }),
    ...stateRoutes(store),
    ...eventRoutes(store, producers),
    ...requestRoutes(store, producers),
  ];
}

/** Returns the routes that decide whether events are sent. */
function stateRoutes(store: Pick<Store, 'apps'> & Pick<WebhookStore, 'webhooks' | 'outbox'>) {
  const account = createAccountOfApp(store);
  return [
    defineRoute({
      method: 'post',
      path: '/apps/:app/webhooks/:id/off',
      isPublic: true,
      role: 'admin',
      account,
      input: ofWebhook,
      audit: 'webhook.off',
      handle: ({ input: { app, id } }) => turnWebhookOff(store, app, id),
    }),
    defineRoute({
      method: 'post',
      path: '/apps/:app/webhooks/:id/on',
      isPublic: true,
      role: 'admin',
      account,
      input: ofWebhook,
      audit: 'webhook.on',
      handle: ({ input: { app, id } }) => turnWebhookOn(store, app, id),
    }),
    defineRoute({
      method: 'delete',
      path: '/apps/:app/webhooks/:id',
      isPublic: true,
      role: 'admin',
      account,
      input: ofWebhook,
      audit: 'webhook.remove',
      handle: ({ input: { app, id } }) => removeWebhook(store, app, id),
    }),
  ];
}

/** Returns the routes that send something to a webhook. */
function eventRoutes(
  store: Pick<Store, 'apps'> & Pick<WebhookStore, 'webhooks' | 'outbox'>,
  producers: Pick<Producers, 'reportToWebhook'>,
) {
  const account = createAccountOfApp(store);
  return [
    defineRoute({
      method: 'post',
      path: '/apps/:app/webhooks/:id/test',
      isPublic: true,
      role: 'operator',
      account,
      input: ofWebhook,
      audit: 'webhook.test',
      async handle({ input: { app, id } }) {
        await requestTestEvent(store, app, id);
        // Only a hint: the scheduler adds the job too.
        void producers.reportToWebhook({ _id: id, app });
      },
    }),
    defineRoute({
      method: 'post',
      path: '/apps/:app/webhooks/:id/replay',
      isPublic: true,
      role: 'operator',
      account,
      input: replayFields,
      audit: 'webhook.replay',
      auditFacts: ({ from, to }) => ({ from: from.toISOString(), to: to.toISOString() }),
      handle: ({ input: { app, id, from, to, after } }) =>
        replayPushes(store, app, id, {
          ...{ fromMs: from.getTime(), toMs: to.getTime(), after, maxMs: REPLAY_MS },
        }),
    }),
  ];
}

/** Returns the routes of the requests that were sent to a webhook. */
function requestRoutes(
  store: Pick<Store, 'apps'> & WebhookStore,
  producers: Pick<Producers, 'reportToWebhook'>,
) {
  const account = createAccountOfApp(store);
  return [
    defineRoute({
      method: 'get',
      path: '/apps/:app/webhooks/:id/requests',
      isPublic: true,
      role: 'viewer',
      account,
      input: ofWebhook,
      async handle({ input: { app, id }, operator }) {
        const requests = await listWebhookRequests(store, app, id);
        // An answer may hold secrets of the receiver, or repeat the events.
        const mayReadAnswers = hasRole(operator.role, 'operator');
        const items = requests.map(({ answer, ...request }) => ({
          ...request,
          ...(mayReadAnswers && answer !== undefined && { answer }),
        }));
        return { items };
      },
    }),
    defineRoute({
      method: 'post',
      path: '/apps/:app/webhooks/:id/requests/:request/resend',
      isPublic: true,
      role: 'operator',
      account,
      input: ofWebhook.extend({ request: objectId }),
      audit: 'webhook.resend',
      async handle({ input: { app, id, request } }) {
        await resendRequest(store, app, id, request);
        // Only a hint: the scheduler adds the job too.
        void producers.reportToWebhook({ _id: id, app });
      },
    }),
  ];
}
