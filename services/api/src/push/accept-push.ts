import { ApiError } from '@carillon/core/api-error';
import { newPushId } from '@carillon/core/ids';
import { LIMITS } from '@carillon/core/limits';
import { type Channel, channelOf } from '@carillon/core/platforms';
import { collapseHash, joinTokens } from '@carillon/core/work';
import type { BatchDocument, PushDocument } from '@carillon/store/documents';
import { batchesOf, workOf } from '@carillon/store/new-work';
import type { Idempotency } from './idempotency.ts';
import type { PushRequest } from './parse-push.ts';
import {
  type Audience,
  type AudienceDeps,
  type Recipient,
  resolveAudience,
} from './resolve-audience.ts';

/** What accepting needs of the store and the queue. */
export interface AcceptDeps extends AudienceDeps {
  /** Keeps a push for good. The earlier push of its idempotency key, if there is one: then nothing was kept. */
  insertPush(push: PushDocument): Promise<PushDocument | undefined>;
  /** The push that an idempotency key stands for. */
  findByKey(app: string, key: string): Promise<PushDocument | undefined>;
  /** Whether an app can send over APNs. */
  hasApnsCredential(app: string): Promise<boolean>;
  insertBatches(batches: readonly BatchDocument[]): Promise<void>;
  /** `accepting` → open or scheduled; false if the push was given up meanwhile. */
  commit(push: string, state: 'open' | 'scheduled'): Promise<boolean>;
  addFanOutJob(push: string): Promise<void>;
  /** For a push that holds its only batch, of devices on our own link. */
  addSendJob(push: string): Promise<void>;
  /** For a push that holds its only batch, of a channel through a provider. */
  addDeliverJob(push: string, channel: Channel): Promise<void>;
  /** Has the push opened when it is due, without waiting for the reconciler's tick. */
  addDueJob(dueAtMs: number): Promise<void>;
  now(): number;
}

/** What the sender is told (specification 4.1). */
export interface Accepted {
  success: true;
  id: string;
  info: { devices: number; failed: string[] };
}

/**
 * Accepts a push for good: once this returns, the push and its recipients are in MongoDB with majority and
 * journal (guarantee G1). The job is only a hint to hurry; without it the reconciler finds the push.
 *
 * @throws ApiError NO_RECIPIENTS, NO_APNS_AUTH, INVALID_PARAM (the idempotency key came with another body),
 *   INTERNAL_SERVER_ERROR when accepting took so long that it was given up
 */
export async function acceptPush(
  deps: AcceptDeps,
  app: string,
  request: PushRequest,
  idempotency?: Idempotency,
): Promise<Accepted> {
  const audience = await resolveAudience(deps, app, request);
  if (audience.devices === 0) throw new ApiError('NO_RECIPIENTS');
  if (audience.hasIos && !(await deps.hasApnsCredential(app))) throw new ApiError('NO_APNS_AUTH');
  const known = new Set(audience.recipients.map(({ token }) => token));
  const failed = request.tokens.filter((token) => !known.has(token));
  const push = frame(app, request, audience.devices, deps.now());
  if (idempotency !== undefined)
    push.idempotency = { ...idempotency, failed: JSON.stringify(failed) };

  const byChannel = groupByChannel(audience.recipients);
  const [only] = byChannel;
  const fitsOne = byChannel.size === 1 && audience.recipients.length <= LIMITS.batchRecipients;
  const isOne = fitsOne && audience.topics.length === 0;
  if (isOne && only !== undefined) push.work = workOf(...only, 'ready', startOf(push));
  else push.fan = { at: startOf(push), seq: 0, next: 0, done: false };
  const earlier = isOne
    ? await deps.insertPush(push)
    : await acceptInBatches(deps, push, byChannel, audience);
  if (earlier !== undefined) return sameAnswer(earlier, idempotency);
  if (request.dueAtMs !== undefined) void deps.addDueJob(request.dueAtMs);
  else void hurry(deps, push);
  return { success: true, id: push._id, info: { devices: push.devices, failed } };
}

/** A provider that is slow must not hold up the queue that all pushes begin in. */
function hurry(deps: AcceptDeps, { _id, work }: PushDocument): Promise<void> {
  if (work === undefined) return deps.addFanOutJob(_id);
  return work.channel === 'mqtt' ? deps.addSendJob(_id) : deps.addDeliverJob(_id, work.channel);
}

function groupByChannel(recipients: readonly Recipient[]): Map<Channel, string[]> {
  const groups = new Map<Channel, string[]>();
  for (const { token, platform } of recipients) {
    const channel = channelOf(platform);
    const group = groups.get(channel);
    if (group === undefined) groups.set(channel, [token]);
    else group.push(token);
  }
  return groups;
}

/** When the push may be sent first. */
function startOf(push: PushDocument): Date {
  return push.dueAt ?? push.acceptedAt;
}

/** The push without its recipients. */
function frame(app: string, request: PushRequest, devices: number, nowMs: number): PushDocument {
  const start = request.dueAtMs ?? nowMs;
  const expiresAt = new Date(start + request.timeToLiveSeconds * 1_000);
  const sendNow = request.timeToLiveSeconds === 0;
  const { collapseKey } = request.options;
  return {
    // A scheduled push is as new as the moment it is due: for its collapse key, and in an inbox.
    _id: newPushId(start),
    app,
    state: request.dueAtMs === undefined ? 'open' : 'scheduled',
    acceptedAt: new Date(nowMs),
    ...(request.dueAtMs !== undefined && { dueAt: new Date(request.dueAtMs) }),
    expiresAt,
    sendUntil: sendNow ? new Date(start + LIMITS.sendNowSeconds * 1_000) : expiresAt,
    data: request.data,
    ...(Object.keys(request.options).length > 0 && { options: request.options }),
    ...(collapseKey !== undefined && { collapse: collapseHash(app, collapseKey) }),
    devices,
    fan: { seq: 0, next: 0, done: true },
  };
}

/**
 * Recipients first, then the conditional change of state: that is the commit. Whatever dies before it leaves a
 * push in `accepting`, which is given up after a minute and was never answered with 200.
 */
async function acceptInBatches(
  deps: AcceptDeps,
  push: PushDocument,
  byChannel: ReadonlyMap<Channel, string[]>,
  audience: Audience,
): Promise<PushDocument | undefined> {
  const { state } = push;
  if (state !== 'open' && state !== 'scheduled') throw new Error(`a new push can't be ${state}`);
  const batches = batchesOf(push, byChannel);
  push.fan.next = batches.length;
  if (audience.topics.length > 0) {
    const tokens = joinTokens(audience.recipients.map(({ token }) => token));
    push.audience = { topics: audience.topics, tokens };
  }
  if (batches.length === 0) return deps.insertPush(push);
  const earlier = await deps.insertPush({ ...push, state: 'accepting' });
  if (earlier !== undefined) return earlier;
  await deps.insertBatches(batches);
  if (!(await deps.commit(push._id, state))) throw new ApiError('INTERNAL_SERVER_ERROR');
  return undefined;
}

/**
 * The answer to a request that was made before; undefined for a new one. Asked before the request is looked into:
 * a schedule that was ahead then may be past now, and an audience gone (guarantee G2).
 *
 * @throws ApiError INVALID_PARAM, SERVICE_UNAVAILABLE
 */
export async function answerAgain(
  deps: Pick<AcceptDeps, 'findByKey'>,
  app: string,
  idempotency: Idempotency | undefined,
): Promise<Accepted | undefined> {
  if (idempotency === undefined) return undefined;
  const earlier = await deps.findByKey(app, idempotency.key);
  return earlier && sameAnswer(earlier, idempotency);
}

/** A repeated request gets the answer of the first one (guarantee G2). */
function sameAnswer(earlier: PushDocument, idempotency: Idempotency | undefined): Accepted {
  if (earlier.idempotency?.bodyHash !== idempotency?.bodyHash) {
    throw new ApiError('INVALID_PARAM', 'The Idempotency-Key was used with another request body.');
  }
  // Still being accepted by another request: that one's end isn't known yet.
  if (earlier.state === 'accepting') throw new ApiError('SERVICE_UNAVAILABLE');
  const failed = JSON.parse(earlier.idempotency?.failed ?? '[]') as string[];
  return { success: true, id: earlier._id, info: { devices: earlier.devices, failed } };
}
