import {
  acceptPush,
  type PushOrigin,
  parseIdempotencyKey,
  replayIdempotent,
} from '@carillon/accept/accept-push';
import { deletePush } from '@carillon/accept/delete-push';
import {
  findWarnings,
  MAX_WARNINGS,
  type PushRequest,
  parsePush,
  parseTokens,
} from '@carillon/accept/parse-push';
import type { AcceptedPush } from '@carillon/accept/schema';
import { ApiError } from '@carillon/core/api-error';
import { createGather } from '@carillon/core/gather';
import type { JsonBody } from '@carillon/core/json-text';
import { LIMITS } from '@carillon/core/limits';
import type { Span, Tracer } from '@carillon/core/tracing';
import { chooseContact } from '@carillon/core/web-push-contact';
import type { Producers } from '@carillon/queue/producers';
import type { Reports } from '@carillon/reports/reports';
import { usesFcmForAndroid } from '@carillon/store/apps';
import type { Store } from '@carillon/store/store';
import type { Caller } from '../http/authenticate.ts';
import { RESPONSE_TIMEOUT_MS, type RequestContext, type Routing } from '../http/routing.ts';
import type { RouteRegistrar } from '../http/server.ts';
import { getPushStatus } from './get-push-status.ts';
import { createLargePushes, TOKENS_PER_SECOND } from './large-pushes.ts';

/** Maximum body of a push: 100,000 tokens of maximum length and the other fields. */
const PUSH_BODY_BYTES = 8 * 1024 * 1024;

/**
 * Time for which pushes to one device wait for each other while one is in progress. Pushes of a moment share their
 * statements, their job and its claims.
 */
const GATHER_MS = 15;

/** Counts the items of a request's lists of tokens, at most as many as a push may have. */
function countTokens({ value }: JsonBody): number {
  const lists = [value.to, value.tokens, value.registration_ids];
  const tokens = lists.reduce<number>(
    (total, list) => total + (Array.isArray(list) ? list.length : 0),
    0,
  );
  return Math.min(tokens, LIMITS.tokensPerPush);
}

/** Checks whether a push has more tokens than a batch. */
const isLarge = (body: JsonBody): boolean => countTokens(body) > LIMITS.batchRecipients;

/** Returns the milliseconds that a request may take longer because of its number of tokens. */
function extraMsForTokens(body: JsonBody): number {
  return Math.floor(countTokens(body) / TOKENS_PER_SECOND) * 1_000;
}

interface PushRouteOptions {
  /** Time for which a completed push is shown. */
  retentionMs: number;
  /** Begins or continues a trace with each request to send a push. */
  tracer: Tracer | undefined;
  /** The deployment's contact for push services. */
  webPushContact: string | undefined;
}

/** Registers the routes that send, show and delete pushes (specification 4.1 to 4.3). */
export function pushRoutes(
  routing: Routing,
  store: Store & Pick<Reports, 'pending'>,
  producers: Producers,
  { retentionMs, tracer, webPushContact }: PushRouteOptions,
): RouteRegistrar {
  const gather = createGather(GATHER_MS);
  const inTurn = createLargePushes();
  // Those of the usual time limit are not behind others that take several times as long.
  const inShortTurn = createLargePushes();

  async function accept(
    context: RequestContext,
    caller: Caller,
    trace: string | undefined,
  ): Promise<AcceptedPush> {
    const { body, header } = context;
    const { app } = caller;
    const acceptNow = async () => {
      const idempotency = parseIdempotencyKey(header('idempotency-key'), body.text);
      const repeated =
        idempotency &&
        (await replayIdempotent(store, app._id, idempotency, () => parseTokens(body)));
      return repeated ?? acceptNew(context, caller, { idempotency, trace });
    };
    if (!isLarge(body)) return acceptNow();
    const large = { owner: app._id, tokens: countTokens(body), chars: body.text.length };
    const extraMs = extraMsForTokens(body);
    // The other half of its time remains for the work.
    const maxWaitMs = (RESPONSE_TIMEOUT_MS + extraMs) / 2;
    return (extraMs > 0 ? inTurn : inShortTurn)(large, maxWaitMs, acceptNow);
  }

  async function acceptNew(
    { body, assertAwaited, noteProgress }: RequestContext,
    { app, apiKey, webPushContact: ownContact, hasFcm }: Caller,
    origin: Pick<PushOrigin, 'idempotency' | 'trace'>,
  ): Promise<AcceptedPush> {
    assertAwaited();
    const request = await parsePush(body, app, store.clock.now());
    const lacksWebPushContact =
      ownContact !== undefined && chooseContact(ownContact, webPushContact) === undefined;
    const acceptNow = () =>
      acceptPush(store, producers, app._id, request, {
        ...origin,
        by: { key: apiKey.slice(-4) },
        usesFcm: hasFcm && usesFcmForAndroid(app),
        lacksWebPushContact,
        assertAwaited() {
          assertAwaited();
          if (isLarge(body)) noteProgress();
        },
      });
    return isForOneDevice(request) ? gather(acceptNow) : acceptNow();
  }
  const sendPush = routing.withApiKey(
    { maxBodyBytes: PUSH_BODY_BYTES, extraMs: extraMsForTokens, isLarge },
    async (context, caller) => {
      const span = tracer && startSpan(tracer, context);
      const accepting = accept(context, caller, span?.traceparent);
      const accepted = await (span === undefined ? accepting : endSpan(span, accepting));
      context.addLogFields({ push: accepted.id });
      return addWarnings(accepted, context.body.value);
    },
  );
  const getStatus = routing.withApiKey({}, ({ params }, { app }) =>
    getPushStatus(store, { app: app._id, id: params.id ?? '', retentionMs }),
  );
  const removePush = routing.withApiKey({}, ({ params }, { app }) =>
    deletePush(store, producers, { app: app._id, id: params.id ?? '', retentionMs }),
  );
  return (router) => {
    router.post('/push', sendPush);
    router.get('/pushes/:id', getStatus);
    router.delete('/pushes/:id', removePush);
  };
}

function isForOneDevice({ tokens, topics }: PushRequest): boolean {
  return tokens.length === 1 && topics.length === 0;
}

/** Starts the trace of a push. The API key is checked by then, so only its owner makes the process record spans. */
function startSpan(
  tracer: Tracer,
  { header, startedAt }: Pick<RequestContext, 'header' | 'startedAt'>,
): Span | undefined {
  return tracer.startRequest('POST /push', header('traceparent'), startedAt, {
    'http.request.method': 'POST',
    'http.route': '/push',
  });
}

async function endSpan(span: Span, accepting: Promise<AcceptedPush>): Promise<AcceptedPush> {
  try {
    const accepted = await accepting;
    const { id, info } = accepted;
    span.end({ 'carillon.push.id': id, 'carillon.recipients': info.devices });
    return accepted;
  } catch (error) {
    span.end({ 'error.type': error instanceof ApiError ? error.code : 'INTERNAL_SERVER_ERROR' });
    throw error;
  }
}

/** Adds the warnings about the body: derived from it, a repeated request gets them again although they are not stored. */
function addWarnings(accepted: AcceptedPush, value: Record<string, unknown>): AcceptedPush {
  const { info } = accepted;
  const warnings = [...(info.warnings ?? []), ...findWarnings(value)].slice(0, MAX_WARNINGS);
  return warnings.length === 0 ? accepted : { ...accepted, info: { ...info, warnings } };
}
