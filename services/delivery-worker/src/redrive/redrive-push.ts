import { createHash } from 'node:crypto';
import { type Idempotency, PushExpiredError } from '@carillon/accept/accept-push';
import type { Accept } from '@carillon/accept/admit-push';
import type { PushRequest } from '@carillon/accept/parse-push';
import { ApiError } from '@carillon/core/api-error';
import type { RedriveDocument } from '@carillon/store/documents';
import type { BatchRecipients, FailedPush } from '@carillon/store/failed-recipients';
import type { Store } from '@carillon/store/store';
import type { Semaphore } from '../deliver/semaphore.ts';

const FIRST_SERVER_ERROR = 500;

/** What re-driving a push needs. */
export interface RedriveResources {
  store: Pick<Store, 'failedRecipients' | 'pushes' | 'collapse' | 'clock'>;
  accept: Accept;
  /** Gives a turn to a push of several batches: one at a time has its recipients in the memory of the process. */
  largePushes: Semaphore;
}

/** A re-drive whose pushes are worked on. */
type Redrive = Pick<RedriveDocument, '_id' | 'app' | 'by' | 'filter' | 'to'>;

/** Result of one old push: the recipients of its new push, or the reason why it has none. */
export type RedriveResult = { recipients: number } | { skipped: string };

/** Thrown when another worker has reserved recipients for the same re-drive since they were read. */
export class ReservedMeanwhileError extends Error {}

/**
 * Sends an old push again to its recipients that failed, with the expiry of the old one. Safe to repeat: the
 * recipients are reserved in their batches before the new push is accepted, and the new push's idempotency key is made
 * of the re-drive and the old push.
 *
 * @throws ReservedMeanwhileError; ApiError or the store's error when the push should be tried again later
 */
export async function redrivePush(
  resources: RedriveResources,
  redrive: Redrive,
  id: string,
): Promise<RedriveResult> {
  const push = await resources.store.failedRecipients.findPush(redrive.app, id);
  if (push === undefined) return { skipped: 'removed' };
  if (push.work !== undefined) return redriveParts(resources, redrive, push);
  const release = await resources.largePushes.acquire();
  try {
    return await redriveParts(resources, redrive, push);
  } finally {
    release();
  }
}

async function redriveParts(
  resources: RedriveResources,
  redrive: Redrive,
  push: FailedPush,
): Promise<RedriveResult> {
  const { channel, reason } = redrive.filter;
  const scope = {
    by: redrive._id,
    to: redrive.to,
    ...(channel !== undefined && { channel }),
    ...(reason !== undefined && { reason }),
  };
  let recipients = 0;
  let isAccepted = false;
  let skipped = 'nothing-failed';
  let number = 0;
  for await (const part of resources.store.failedRecipients.iterateParts(push, scope)) {
    const idempotency = createIdempotency(redrive._id, push._id, number);
    number += 1;
    const result = await redrivePart({ ...resources, redrive, push, idempotency }, part);
    if ('skipped' in result) skipped = result.skipped;
    else {
      isAccepted = true;
      recipients += result.recipients;
    }
  }
  return isAccepted ? { recipients } : { skipped };
}

/** The key alone identifies the new push: a repeated run may leave out further recipients. */
function createIdempotency(redrive: string, push: string, part: number): Idempotency {
  const key = `redrive:${redrive}:${push}:${part}`;
  return { key, bodyHash: createHash('sha256').update(key).digest('hex') };
}

interface Part extends RedriveResources {
  redrive: Redrive;
  push: FailedPush;
  idempotency: Idempotency;
}

async function redrivePart(
  context: Part,
  part: readonly BatchRecipients[],
): Promise<RedriveResult> {
  const { store, accept, redrive, push, idempotency } = context;
  if (part.some(({ isReserved }) => isReserved)) {
    const accepted = await findAccepted(context);
    if (accepted !== undefined) return accepted;
  }
  const selected = await selectRecipients(context, part);
  if ('skipped' in selected) {
    const reserved = part.filter(({ isReserved }) => isReserved);
    return (await releaseUnaccepted(context, reserved)) ?? selected;
  }
  const { recipients } = selected;
  const unreserved = recipients.filter(({ isReserved }) => !isReserved);
  if (!(await store.failedRecipients.reserve(redrive._id, unreserved)))
    throw new ReservedMeanwhileError(`recipients of ${push._id} were reserved meanwhile`);
  const request: PushRequest = {
    tokens: recipients.flatMap(({ tokens }) => tokens),
    topics: [],
    data: push.data,
    expiresAt: push.expiresAt,
    sendUntil: push.sendUntil,
    options: push.options,
  };
  try {
    const by = redrive.by === undefined ? {} : { by: { operator: redrive.by } };
    const { info } = await accept(redrive.app, request, { idempotency, ...by });
    return { recipients: info.devices };
  } catch (error) {
    const skipped = findSkipReason(error);
    // Reserved recipients stay reserved, and are tried again.
    if (skipped === undefined) throw error;
    return (await releaseUnaccepted(context, recipients)) ?? { skipped };
  }
}

/** Returns the reason why the new push will never be accepted; undefined if it is to be tried again. */
function findSkipReason(error: unknown): string | undefined {
  if (error instanceof PushExpiredError) return 'expired';
  if (!(error instanceof ApiError) || isTemporary(error)) return undefined;
  return error.code.toLowerCase().replaceAll('_', '-');
}

/** Distinguishes a temporary error from one that the push will always get. */
function isTemporary({ code, status }: ApiError): boolean {
  return code === 'RATE_LIMIT_EXCEEDED' || status >= FIRST_SERVER_ERROR;
}

/** Finds the new push that an earlier run of the re-drive has accepted. */
async function findAccepted({
  store,
  redrive,
  idempotency,
}: Part): Promise<RedriveResult | undefined> {
  const accepted = await store.pushes.findByIdempotencyKey(redrive.app, idempotency.key);
  // Its process may still be accepting it, or have died: accepting it again shows which.
  if (accepted === undefined || accepted.state === 'accepting') return undefined;
  return { recipients: accepted.devices };
}

/**
 * Leaves out recipients with a newer push of the collapse key, or returns the reason why there is no recipient left.
 */
async function selectRecipients(
  { store, push }: Part,
  part: readonly BatchRecipients[],
): Promise<{ recipients: BatchRecipients[] } | { skipped: string }> {
  if (push.state === 'deleted') return { skipped: 'deleted' };
  const failed = part.filter(({ tokens }) => tokens.length > 0);
  if (failed.length === 0) return { skipped: 'nothing-failed' };
  if (store.clock.now() >= push.sendUntil.getTime()) return { skipped: 'expired' };
  const { _id, app, collapse } = push;
  if (collapse === undefined) return { recipients: failed };
  const tokens = failed.flatMap((one) => one.tokens);
  const superseded = await store.collapse.filterSuperseded({ _id, app, collapse }, tokens);
  const recipients = failed.map((one) => omitTokens(one, superseded));
  const remaining = recipients.filter((one) => one.tokens.length > 0);
  return remaining.length === 0 ? { skipped: 'newer-push' } : { recipients: remaining };
}

function omitTokens(recipients: BatchRecipients, omitted: ReadonlySet<string>): BatchRecipients {
  const { positions, tokens } = recipients;
  return {
    ...recipients,
    positions: positions.filter((_, index) => !omitted.has(tokens[index] ?? '')),
    tokens: tokens.filter((token) => !omitted.has(token)),
  };
}

/**
 * Cancels reservations for a push that is not accepted now, unless another worker has accepted it meanwhile.
 *
 * @returns the result of the other worker, if there is one
 * @throws ReservedMeanwhileError if another worker is accepting the push, or has died while it did
 */
async function releaseUnaccepted(
  context: Part,
  reserved: readonly BatchRecipients[],
): Promise<RedriveResult | undefined> {
  const { store, redrive, idempotency } = context;
  if (reserved.length === 0) return undefined;
  const other = await store.pushes.findByIdempotencyKey(redrive.app, idempotency.key);
  if (other?.state === 'accepting')
    throw new ReservedMeanwhileError(`${other._id} is being accepted`);
  if (other !== undefined) return { recipients: other.devices };
  await store.failedRecipients.release(redrive._id, reserved);
  return undefined;
}
