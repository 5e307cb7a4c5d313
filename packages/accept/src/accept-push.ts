import { ApiError } from '@carillon/core/api-error';
import { collapseHash } from '@carillon/core/batch';
import { newPushId } from '@carillon/core/ids';
import { LIMITS } from '@carillon/core/limits';
import { processCounts } from '@carillon/core/process-counts';
import type { Producers } from '@carillon/queue/producers';
import type { PushDocument } from '@carillon/store/documents';
import { packFailed } from '@carillon/store/failed-tokens';
import type { Store } from '@carillon/store/store';
import { enqueuePush, scheduleDueCheck } from './enqueue-push.ts';
import { createNoRecipientsError } from './explain-no-recipients.ts';
import type { PushRequest } from './parse-push.ts';
import { type Idempotency, repeatResponse } from './recognise-repeat.ts';
import { type AudienceStore, resolveAudience } from './resolve-audience.ts';
import type { AcceptedPush } from './schema.ts';
import { storePush } from './store-push.ts';

/** Collections that accepting a push reads and writes. */
type AcceptPushStore = AudienceStore & Pick<Store, 'pushes' | 'batches' | 'credentials' | 'clock'>;

/** Data of a request that its push keeps besides the content. */
interface PushOrigin {
  idempotency?: Idempotency | undefined;
  /** Context of the request's span (`traceparent`), if the request is traced. */
  trace?: string | undefined;
}

/**
 * Accepts a push: when it returns, the push and its recipients are stored in MongoDB with majority write concern and
 * journal (guarantee G1). The queued job only speeds up delivery; without it the reconciler finds the push.
 *
 * @throws ApiError NO_RECIPIENTS, NO_APNS_AUTH, INVALID_PARAM (the idempotency key was used with another body),
 *   INTERNAL_SERVER_ERROR if accepting took so long that the push was abandoned
 */
export async function acceptPush(
  store: AcceptPushStore,
  producers: Producers,
  app: string,
  request: PushRequest,
  { idempotency, trace }: PushOrigin = {},
): Promise<AcceptedPush> {
  const audience = await resolveAudience(store, app, request);
  if (audience.devices === 0) throw await createNoRecipientsError(store, app, request);
  if (audience.hasIos && !(await store.credentials.has(app, 'apns')))
    throw new ApiError('NO_APNS_AUTH');
  const knownTokens = new Set(audience.recipients.map(({ token }) => token));
  const failed = request.tokens.filter((token) => !knownTokens.has(token));
  const push = buildPush(app, request, audience.devices, store.clock.now());
  if (trace !== undefined) push.trace = trace;
  if (idempotency !== undefined) {
    const failedBits = packFailed(request.tokens, (token) => knownTokens.has(token));
    push.idempotency = { ...idempotency, ...(failedBits && { failed: failedBits }) };
  }
  const existing = await storePush(store, push, audience);
  if (existing !== undefined) return repeatResponse(existing, idempotency, request.tokens);
  processCounts.pushesAccepted += 1;
  if (request.dueAtMs !== undefined) void scheduleDueCheck(store, producers, request.dueAtMs);
  else void enqueuePush(producers, push);
  return { success: true, id: push._id, info: { devices: push.devices, failed } };
}

/** Builds the push document without its recipients. */
function buildPush(
  app: string,
  request: PushRequest,
  devices: number,
  nowMs: number,
): PushDocument {
  const startMs = request.dueAtMs ?? nowMs;
  const expiresAt = new Date(startMs + request.timeToLiveSeconds * 1_000);
  const isSendNow = request.timeToLiveSeconds === 0;
  const { collapseKey } = request.options;
  return {
    // A scheduled push counts as created when it is due, for its collapse key and for its order in an inbox.
    _id: newPushId(startMs),
    app,
    state: request.dueAtMs === undefined ? 'open' : 'scheduled',
    acceptedAt: new Date(nowMs),
    ...(request.dueAtMs !== undefined && { dueAt: new Date(request.dueAtMs) }),
    expiresAt,
    sendUntil: isSendNow ? new Date(startMs + LIMITS.sendNowSeconds * 1_000) : expiresAt,
    data: request.data,
    ...(Object.keys(request.options).length > 0 && { options: request.options }),
    ...(collapseKey !== undefined && { collapse: collapseHash(app, collapseKey) }),
    devices,
    fan: { seq: 0, next: 0, done: true },
  };
}
