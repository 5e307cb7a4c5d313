import { ApiError } from '@carillon/core/api-error';
import { newPushId } from '@carillon/core/ids';
import { LIMITS } from '@carillon/core/limits';
import { type Channel, channelOf, type Platform } from '@carillon/core/platforms';
import { collapseHash } from '@carillon/core/work';
import type { BatchDocument, PushDocument } from '@carillon/store/documents';
import { batchesOf, workOf } from '@carillon/store/new-work';
import type { PushRequest } from './parse-push.ts';

/** A registered device as a recipient. */
interface Recipient {
  _id: string;
  platform: Platform;
}

/** What accepting needs of the store and the queue. */
export interface AcceptDeps {
  findRecipient(app: string, token: string): Promise<Recipient | undefined>;
  findRecipients(app: string, tokens: readonly string[]): Promise<Recipient[]>;
  /** Keeps a push for good, alone or as the frame of batches that follow. */
  insertPush(push: PushDocument): Promise<void>;
  insertBatches(batches: readonly BatchDocument[]): Promise<void>;
  /** `accepting` → open or scheduled; false if the push was given up meanwhile. */
  commit(push: string, state: 'open' | 'scheduled'): Promise<boolean>;
  addSendJob(push: string, batches: boolean): Promise<void>;
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
 * @throws ApiError NO_RECIPIENTS, INTERNAL_SERVER_ERROR when accepting took so long that it was given up
 */
export async function acceptPush(
  deps: AcceptDeps,
  app: string,
  request: PushRequest,
): Promise<Accepted> {
  const recipients = await resolve(deps, app, request.tokens);
  if (recipients.length === 0) throw new ApiError('NO_RECIPIENTS');
  const push = frame(app, request, recipients.length, deps.now());
  const byChannel = groupByChannel(recipients);
  const [only] = byChannel;
  const fitsOne = byChannel.size === 1 && recipients.length <= LIMITS.batchRecipients;
  if (fitsOne && only !== undefined) {
    await deps.insertPush({ ...push, work: workOf(...only, 'ready', startOf(push)) });
  } else {
    await acceptInBatches(deps, push, byChannel);
  }
  if (request.dueAtMs === undefined) void deps.addSendJob(push._id, !fitsOne);
  const known = new Set(recipients.map((device) => device._id));
  const failed = request.tokens.filter((token) => !known.has(token));
  return { success: true, id: push._id, info: { devices: recipients.length, failed } };
}

async function resolve(
  deps: AcceptDeps,
  app: string,
  tokens: readonly string[],
): Promise<Recipient[]> {
  const [only] = tokens;
  if (only === undefined) return [];
  if (tokens.length > 1) return deps.findRecipients(app, tokens);
  const device = await deps.findRecipient(app, only);
  return device === undefined ? [] : [device];
}

function groupByChannel(recipients: readonly Recipient[]): Map<Channel, string[]> {
  const groups = new Map<Channel, string[]>();
  for (const { _id, platform } of recipients) {
    const channel = channelOf(platform);
    const group = groups.get(channel);
    if (group === undefined) groups.set(channel, [_id]);
    else group.push(_id);
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
    _id: newPushId(Math.floor(nowMs)),
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
    fan: { seq: 0, done: true },
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
): Promise<void> {
  const state = push.dueAt === undefined ? 'open' : 'scheduled';
  const fan = { at: startOf(push), seq: 0, done: false };
  await deps.insertPush({ ...push, state: 'accepting', fan });
  await deps.insertBatches(batchesOf(push, byChannel));
  if (!(await deps.commit(push._id, state))) throw new ApiError('INTERNAL_SERVER_ERROR');
}
