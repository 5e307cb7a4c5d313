import { parseIdempotencyKey, replayIdempotent } from '@carillon/accept/accept-push';
import type { Accept } from '@carillon/accept/admit-push';
import { countAudience } from '@carillon/accept/count-audience';
import { deletePush } from '@carillon/accept/delete-push';
import { parsePush, parseRecipients, parseTokens } from '@carillon/accept/parse-push';
import { findAnything } from '@carillon/admin/find-anything';
import {
  getPushDetails,
  getPushPayload,
  listRecipients,
  searchPushes,
} from '@carillon/admin/push-details';
import { ENDS, getRecipientOutcome, LISTED_STATES } from '@carillon/admin/pushes';
import { TOPIC_NAME } from '@carillon/core/limits';
import { REPORTED_OUTCOMES } from '@carillon/core/outcomes';
import type { Producers } from '@carillon/queue/producers';
import type { Reports } from '@carillon/reports/reports';
import type { Store } from '@carillon/store/store';
import { z } from 'zod';
import type { AccountOf } from '../account-of.ts';
import { objectId, pageFields } from '../http/inputs.ts';
import { defineRoute, hasRole, notFound } from '../http/route.ts';
import { deviceToken, interval } from '../inputs.ts';
import { sendAgain } from './send-again.ts';

/** Maximum body: it fits 100,000 tokens of maximum length and the other fields, as the API's POST /push does. */
const PUSH_BODY_BYTES = 8 * 1024 * 1024;

/**
 * Makes the routes that list, show, send and delete pushes, and the search.
 *
 * @param retentionMs time for which the API shows a completed push, which can be deleted as long
 */
export function pushRoutes(
  store: Store & Reports,
  producers: Producers,
  { accept, accountOf, retentionMs }: { accept: Accept; accountOf: AccountOf; retentionMs: number },
) {
  return [
    ...readRoutes(store, accountOf),
    ...recipientRoutes(store, accountOf),
    ...sendRoutes(store, accept, accountOf),
    defineRoute({
      method: 'post',
      path: '/pushes/:push/delete',
      role: 'operator',
      input: z.object({ push: objectId }),
      account: ({ push }) => accountOf.push(push),
      audit: 'push.delete',
      async handle({ input: { push: id } }) {
        const app = await store.pushes.findApp(id);
        if (app === undefined) throw notFound();
        return deletePush(store, producers, { app, id, retentionMs });
      },
    }),
  ];
}

function readRoutes(store: Store & Reports, accountOf: AccountOf) {
  return [
    defineRoute({
      method: 'get',
      path: '/apps/:app/pushes',
      isPublic: true,
      role: 'viewer',
      input: z.object({
        app: objectId,
        state: z.enum(LISTED_STATES).optional(),
        topic: z.string().regex(TOPIC_NAME, 'This is not the name of a topic.').optional(),
        token: deviceToken.optional(),
        outcome: z.enum(ENDS).optional(),
        ...interval,
        ...pageFields,
      }),
      account: ({ app }) => accountOf.app(app),
      // Titles are of payloads, which viewers may not read. A list is read every few seconds, so it is not in the audit log.
      handle: ({ input, operator }) =>
        searchPushes(store, input, hasRole(operator.role, 'operator')),
    }),
    defineRoute({
      method: 'get',
      path: '/pushes/:push',
      isPublic: true,
      role: 'viewer',
      input: z.object({ push: objectId }),
      account: ({ push }) => accountOf.push(push),
      handle: ({ input }) => getPushDetails(store, input.push),
    }),
    defineRoute({
      method: 'get',
      path: '/pushes/:push/payload',
      role: 'operator',
      input: z.object({ push: objectId }),
      account: ({ push }) => accountOf.push(push),
      audit: 'push.payload',
      handle: ({ input }) => getPushPayload(store, input.push),
    }),
    defineRoute({
      method: 'get',
      path: '/find',
      role: 'viewer',
      input: z.object({ q: z.string().max(4_096) }),
      account: 'any',
      handle: async ({ input, operator }) => ({
        items: await findAnything(store, input.q, operator.accounts),
      }),
    }),
  ];
}

function recipientRoutes(store: Store & Reports, accountOf: AccountOf) {
  return [
    defineRoute({
      method: 'get',
      path: '/pushes/:push/recipients',
      role: 'viewer',
      input: z.object({
        push: objectId,
        outcome: z.enum(REPORTED_OUTCOMES).optional(),
        ...pageFields,
      }),
      account: ({ push }) => accountOf.push(push),
      handle: ({ input: { push, ...query } }) => listRecipients(store, push, query),
    }),
    defineRoute({
      method: 'get',
      path: '/pushes/:push/recipients/:token',
      isPublic: true,
      role: 'viewer',
      input: z.object({ push: objectId, token: deviceToken }),
      account: ({ push }) => accountOf.push(push),
      handle: ({ input }) => getRecipientOutcome(store, input.push, input.token),
    }),
  ];
}

function sendRoutes(store: Store & Reports, accept: Accept, accountOf: AccountOf) {
  return [
    defineRoute({
      method: 'post',
      path: '/apps/:app/pushes',
      role: 'operator',
      input: z.looseObject({ app: objectId }),
      account: ({ app }) => accountOf.app(app),
      audit: 'push.send',
      bodyLimit: PUSH_BODY_BYTES,
      handle: ({ input: { app, ...value }, bodyText: text, idempotencyKey, operator }) =>
        send(store, accept, { app, operator: operator.name, idempotencyKey }, { value, text }),
    }),
    defineRoute({
      method: 'post',
      path: '/apps/:app/audience',
      role: 'operator',
      input: z.object({ app: objectId, recipients: z.array(z.string()) }),
      account: ({ app }) => accountOf.app(app),
      onlyReads: true,
      bodyLimit: PUSH_BODY_BYTES,
      handle: async ({ input: { app, recipients: to } }) =>
        countAudience(store, app, await parseRecipients({ value: { to } })),
    }),
    defineRoute({
      method: 'post',
      path: '/pushes/:push/send-again',
      role: 'operator',
      input: z.object({ push: objectId }),
      account: ({ push }) => accountOf.push(push),
      audit: 'push.send-again',
      handle: ({ input, operator }) => sendAgain(store, accept, input.push, operator.name),
    }),
  ];
}

/** Accepts the body of the API's POST /push, with its header `Idempotency-Key`. */
async function send(
  store: Pick<Store, 'apps' | 'clock' | 'pushes'>,
  accept: Accept,
  {
    app,
    operator,
    idempotencyKey,
  }: { app: string; operator: string; idempotencyKey: string | undefined },
  body: Parameters<typeof parsePush>[0],
): ReturnType<Accept> {
  const settings = await store.apps.find(app);
  if (settings === undefined) throw notFound();
  const idempotency = parseIdempotencyKey(idempotencyKey, body.text);
  const repeated = await replayIdempotent(store, app, idempotency, () => parseTokens(body));
  if (repeated !== undefined) return repeated;
  const request = await parsePush(body, settings, store.clock.now());
  return accept(app, request, { by: { operator }, idempotency });
}
