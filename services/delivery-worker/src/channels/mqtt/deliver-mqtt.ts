import { setTimeout as pause } from 'node:timers/promises';
import { failpoint, failpointForEach } from '@carillon/core/failpoint';
import { failureCode, OUTCOMES } from '@carillon/core/outcomes';
import type {
  Delivery as Dispatch,
  Dispatcher,
  DispatchRecipient,
} from '@carillon/presence/dispatcher';
import type { PresenceReader } from '@carillon/presence/presence-reader';
import type { DeliveryResult } from '@carillon/presence/replies';
import { type PendingPush, rowId } from '@carillon/store/inbox';
import type { Store } from '@carillon/store/store';
import type { DeliverByChannel, Delivery } from '../../deliver/channel.ts';
import { findWriteDeadline } from '../../deliver/send-gate.ts';

/** Delays before a delivery that was not written is dispatched again. */
const BACKOFF_MS = [100, 300, 1_000, 2_000];
const REDIS_RETRY_MS = 1_000;

/** Resources of delivering over MQTT. */
export interface MqttResources {
  store: Pick<Store, 'inbox' | 'inboxQuota' | 'deletedDevices'>;
  presenceReader: PresenceReader;
  dispatcher: Pick<
    Dispatcher,
    'dispatch' | 'dispatchToDevice' | 'isDeviceDispatchSupported' | 'notifyInboxes'
  >;
}

/** Next step for a recipient after its gateway's result. */
type NextStep = 'delivered' | 'superseded' | 'enqueue' | 'enqueue-as-sent' | 'retry';

const NEXT_STEP: Record<DeliveryResult, NextStep> = {
  acknowledged: 'delivered',
  superseded: 'superseded',
  // The device is replaying its inbox: the push is appended there (guarantee G5).
  syncing: 'enqueue',
  backpressure: 'enqueue',
  // Written without a receipt: the row guarantees delivery, and the device may get the push twice (guarantee G4).
  unacked: 'enqueue-as-sent',
  'not-connected': 'retry',
  'not-sent': 'retry',
  unanswered: 'retry',
};

/**
 * Creates the delivery over MQTT: dispatches to the gateways of connected devices, and writes a row to the inbox of all
 * others. A connected device that acknowledges costs no write of its own.
 */
export function createDeliverMqtt(resources: MqttResources): DeliverByChannel {
  return async (delivery) => {
    try {
      for (let round = 0; delivery.pending.size > 0; round += 1) {
        const isAlone =
          delivery.pending.size === 1 && resources.dispatcher.isDeviceDispatchSupported();
        const deliverOnce = isAlone ? deliverToDevice : deliverRound;
        const maySend = await deliverOnce(resources, delivery, round >= BACKOFF_MS.length);
        if (!maySend) return { done: false, retryAfterMs: 0 };
        if (delivery.pending.size > 0) await pause(BACKOFF_MS[round] ?? 0);
      }
      return { done: true };
    } catch (error) {
      if (!isRedisError(error)) throw error;
      // Presence is unknown: another attempt soon instead of inbox rows for the whole audience.
      return { done: false, retryAfterMs: REDIS_RETRY_MS };
    }
  };
}

/** Delivers once to each pending recipient. False: nothing may be sent any more. */
async function deliverRound(
  resources: MqttResources,
  delivery: Delivery,
  isLastRound: boolean,
): Promise<boolean> {
  const positions = [...delivery.pending];
  const presenceEntries = await lookupPresence(resources, delivery, positions);
  const deadline = await findWriteDeadline(delivery);
  if (deadline === undefined) return false;
  const online: DispatchRecipient[] = [];
  const offline: number[] = [];
  for (const [index, position] of positions.entries()) {
    if (!delivery.pending.has(position)) continue;
    const presence = presenceEntries[index];
    if (presence === undefined) offline.push(position);
    else online.push({ token: delivery.tokens[position] ?? '', position, presence });
  }
  // Both are awaited: receipts must count even when the other part failed, or devices get the push twice.
  const settledRounds = await Promise.allSettled([
    dispatchAndApply(resources, delivery, { online, deadline, isLastRound }),
    enqueue(resources, delivery, offline, false),
  ]);
  for (const settledRound of settledRounds)
    if (settledRound.status === 'rejected') throw settledRound.reason;
  return true;
}

/** Delivers once to the only pending recipient: most pushes have one. Returns as {@link deliverRound} does. */
async function deliverToDevice(
  resources: MqttResources,
  delivery: Delivery,
  isLastRound: boolean,
): Promise<boolean> {
  const deadline = await findWriteDeadline(delivery);
  if (deadline === undefined) return false;
  const [position] = delivery.pending;
  // A newer push of its collapse key is for the recipient.
  if (position === undefined) return true;
  const token = delivery.tokens[position] ?? '';
  failpoint('dispatch', token);
  const result = await markRedisErrors(
    resources.dispatcher.dispatchToDevice(toDispatch(delivery), { token, position }, deadline),
  );
  if (result === 'refused') return deliverRound(resources, delivery, isLastRound);
  failpoint('dispatched', token);
  if (result === 'offline') await enqueue(resources, delivery, [position], false);
  else await applyResults(resources, delivery, new Map([[position, result]]), isLastRound);
  return true;
}

/** The connected devices of one round. */
interface DispatchRound {
  online: DispatchRecipient[];
  /** Gateways write nothing after it, by the monotonic clock. */
  deadline: number;
  isLastRound: boolean;
}

async function dispatchAndApply(
  resources: MqttResources,
  delivery: Delivery,
  { online, deadline, isLastRound }: DispatchRound,
): Promise<void> {
  if (online.length === 0) return;
  const listTokens = () => online.map(({ token }) => token);
  failpointForEach('dispatch', listTokens);
  const dispatching = resources.dispatcher.dispatch(toDispatch(delivery), online, deadline);
  const results = await markRedisErrors(dispatching);
  failpointForEach('dispatched', listTokens);
  await applyResults(resources, delivery, results, isLastRound);
}

/** Applies the gateways' results; recipients to retry stay pending, unless this was the last round. */
async function applyResults(
  resources: MqttResources,
  delivery: Delivery,
  results: ReadonlyMap<number, DeliveryResult>,
  isLastRound: boolean,
): Promise<void> {
  const pendingPositions: number[] = [];
  const sentPositions: number[] = [];
  for (const [position, result] of results) {
    const nextStep = nextStepFor(delivery, result);
    if (nextStep === 'delivered') delivery.recordOutcome(position, OUTCOMES.delivered);
    else if (nextStep === 'superseded') delivery.recordOutcome(position, OUTCOMES.superseded);
    else if (nextStep === 'enqueue-as-sent') sentPositions.push(position);
    else if (nextStep === 'enqueue' || isLastRound) pendingPositions.push(position);
  }
  await Promise.all([
    enqueue(resources, delivery, pendingPositions, false),
    enqueue(resources, delivery, sentPositions, true),
  ]);
}

function nextStepFor(delivery: Delivery, result: DeliveryResult): NextStep {
  const isBusy = result === 'syncing' || result === 'backpressure';
  // It is connected, and a push with a time to live of 0 never enters an inbox: the replay ends in a moment.
  return isBusy && !hasTimeToLive(delivery) ? 'retry' : NEXT_STEP[result];
}

/**
 * Writes inbox rows, then reads presence: a device that connected in between read its inbox before the row was there,
 * so its gateway is notified to read again. Each side writes before it reads, so no timing matters.
 */
async function enqueue(
  resources: MqttResources,
  delivery: Delivery,
  requested: readonly number[],
  sent: boolean,
): Promise<void> {
  const { store, dispatcher } = resources;
  if (requested.length === 0) return;
  if (!hasTimeToLive(delivery)) return recordAll(delivery, requested, OUTCOMES.expired);
  const { push, batch, tokens } = delivery;
  const fullTokens = await store.inboxQuota.filterFull(
    requested.map((position) => tokens[position] ?? ''),
  );
  // A newer push of the collapse key may have been delivered during the dispatch.
  await delivery.skipSuperseded();
  await batch.ensureLease();
  const positions = requested.filter((position) => delivery.pending.has(position));
  const listTokens = () => positions.map((position) => tokens[position] ?? '');
  failpointForEach('rows', listTokens);
  // When the claim is lost, its new holder writes the rows of pending recipients.
  if (positions.length === 0 || !delivery.maySendNow()) return;
  const rows = positions.map((position) => ({
    token: tokens[position] ?? '',
    push: push._id,
    work: batch.id,
    position,
    ...(push.collapse !== undefined && { collapse: push.collapse }),
    sent,
    ...(batch.notify && { notify: batch.notify }),
  }));
  const enqueuedRows = rows.filter(({ token }) => !fullTokens.has(token));
  const superseded = await store.inbox.enqueue(enqueuedRows);
  failpointForEach('rows-written', listTokens);
  await store.inboxQuota.sample(enqueuedRows.map(({ token }) => token));
  const goneTokens = await removeDeleted(store, push, enqueuedRows);
  const presenceEntries = await lookupPresence(resources, delivery, positions);
  const connected = rows.flatMap(({ token }, index) => {
    const presence = presenceEntries[index];
    return presence === undefined ||
      superseded.has(token) ||
      fullTokens.has(token) ||
      goneTokens.has(token)
      ? []
      : [{ token, presence }];
  });
  if (connected.length > 0) await markRedisErrors(dispatcher.notifyInboxes(connected));
  for (const { token, position } of rows) {
    if (fullTokens.has(token)) delivery.recordOutcome(position, failureCode('inbox-full'));
    else if (goneTokens.has(token)) delivery.recordOutcome(position, OUTCOMES.gone);
    else
      delivery.recordOutcome(
        position,
        superseded.has(token) ? OUTCOMES.superseded : OUTCOMES.inbox,
      );
  }
}

/** Removes the rows of devices that were deleted after the push was accepted. Returns those devices' tokens. */
async function removeDeleted(
  { deletedDevices, inbox }: MqttResources['store'],
  { _id, acceptedAt }: Delivery['push'],
  rows: readonly PendingPush[],
): Promise<Set<string>> {
  const tokens = rows.map(({ token }) => token);
  const goneTokens = await deletedDevices.filterDeleted(acceptedAt, tokens);
  const staleRows = rows.filter(({ token }) => goneTokens.has(token));
  await inbox.remove(_id, staleRows.map(rowId));
  return goneTokens;
}

/** Checks whether the push outlives this moment: a time to live of 0 is only for devices that are connected (guarantee G6). */
function hasTimeToLive({ push }: Delivery): boolean {
  return push.expiresAt.getTime() > (push.dueAt ?? push.acceptedAt).getTime();
}

function recordAll(delivery: Delivery, positions: readonly number[], outcome: number): void {
  for (const position of positions) delivery.recordOutcome(position, outcome);
}

function lookupPresence(
  { presenceReader }: MqttResources,
  delivery: Delivery,
  positions: readonly number[],
) {
  return markRedisErrors(
    presenceReader.lookup(positions.map((position) => delivery.tokens[position] ?? '')),
  );
}

/** Returns a push as a worker dispatches it. */
function toDispatch({ push, batch, span }: Delivery): Dispatch {
  return {
    push: push._id,
    work: batch.id,
    claim: batch.claim,
    expiresAt: push.sendUntil.getTime(),
    ...(push.collapse !== undefined && { collapse: push.collapse }),
    payload: push.data,
    ...(span !== undefined && { trace: span.traceparent }),
    ...(batch.notify && { notify: batch.notify }),
  };
}

class RedisError extends Error {}

/** Marks errors of Redis, to tell them from errors of MongoDB. */
async function markRedisErrors<T>(call: Promise<T>): Promise<T> {
  try {
    return await call;
  } catch (error) {
    throw new RedisError('Redis failed', { cause: error });
  }
}

function isRedisError(error: unknown): boolean {
  return error instanceof RedisError;
}
