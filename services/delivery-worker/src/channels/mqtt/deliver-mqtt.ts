import { setTimeout as pause } from 'node:timers/promises';
import { failpointForEach } from '@carillon/core/failpoint';
import { failureCode, OUTCOMES } from '@carillon/core/outcomes';
import type {
  DeviceResult,
  Delivery as Dispatch,
  Dispatcher,
  DispatchRecipient,
  Recipient,
  SendPermission,
} from '@carillon/presence/dispatcher';
import type { Presence, PresenceReader } from '@carillon/presence/presence-reader';
import { type PendingPush, rowId } from '@carillon/store/inbox';
import type { Store } from '@carillon/store/store';
import type { DeliverByChannel, Delivery } from '../../deliver/channel.ts';
import { findWriteDeadline } from '../../deliver/send-gate.ts';
import type { MissedNotices } from './missed-notices.ts';

/** Delays before a delivery that was not written is dispatched again. */
const BACKOFF_MS = [100, 300, 1_000, 2_000];
const REDIS_RETRY_MS = 1_000;

/** Resources of delivering over MQTT. */
export interface MqttResources {
  store: Pick<Store, 'inbox' | 'inboxQuota' | 'deletedDevices'>;
  presenceReader: PresenceReader;
  dispatcher: Pick<Dispatcher, 'dispatchToDevices' | 'notifyInboxes'>;
  missedNotices: Pick<MissedNotices, 'report'>;
}

/** Next step for a recipient after its gateway's result. */
type NextStep = 'delivered' | 'superseded' | 'enqueue' | 'enqueue-as-sent' | 'retry' | 'wait';

const NEXT_STEP: Record<DeviceResult, NextStep> = {
  offline: 'enqueue',
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
  unreachable: 'wait',
};

/**
 * Creates the delivery over MQTT: dispatches to the gateways of connected devices, and writes a row to the inbox of all
 * others. A connected device that acknowledges costs no write of its own.
 *
 * Recipients in a shard of presence that fails keep the batch open for an attempt after a second. Once the shard is
 * `away`, their push goes to their inbox, and their gateways learn of it through MongoDB.
 */
export function createDeliverMqtt(resources: MqttResources): DeliverByChannel {
  return async (delivery) => {
    const before = delivery.pending.size;
    try {
      for (let round = 0; delivery.pending.size > 0; round += 1) {
        const end = await deliverRound(resources, delivery, round >= BACKOFF_MS.length);
        if (end === 'may-not-send') return { done: false, retryAfterMs: 0 };
        if (end === 'failing') {
          // The other recipients are not tried again with them.
          if (delivery.pending.size < before) await delivery.save(new Map());
          return { done: false, retryAfterMs: REDIS_RETRY_MS };
        }
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

/** End of a round: `may-not-send`: nothing may be sent any more; `failing`: a shard of presence fails. */
type RoundEnd = 'delivered' | 'may-not-send' | 'failing';

/**
 * Delivers once to each pending recipient. Parts may wait for room at their gateways: what may be sent is checked just before.
 */
async function deliverRound(
  resources: MqttResources,
  delivery: Delivery,
  isLastRound: boolean,
): Promise<RoundEnd> {
  const failures: unknown[] = [];
  const recordFailure = (error: unknown): undefined => void failures.push(error);
  let isWithheld = false;
  let isFailing = false;
  const tokenAt = (position: number) => delivery.tokens[position] ?? '';

  async function beforeSend(part: readonly Recipient[]): Promise<SendPermission | undefined> {
    const deadline = await findWriteDeadline(delivery);
    isWithheld ||= deadline === undefined;
    if (deadline === undefined) return undefined;
    // For some a newer push of the collapse key may have come meanwhile.
    const includes = (position: number) => delivery.pending.has(position);
    failpointForEach('dispatch', () =>
      part.filter(({ position }) => includes(position)).map(({ token }) => token),
    );
    return { deadline, includes };
  }
  async function applyPart(results: ReadonlyMap<number, DeviceResult>): Promise<void> {
    if (!includesResult(results, 'offline'))
      failpointForEach('dispatched', () => [...results.keys()].map(tokenAt));
    else if (!(await delivery.maySend())) {
      // Nothing was sent to them, so that their push may have ended since its state was read.
      isWithheld = true;
      return;
    }
    if (await applyResults(resources, delivery, results, isLastRound)) isFailing = true;
  }

  const recipients = [...delivery.pending].map((position) => ({
    token: tokenAt(position),
    position,
  }));
  const results = await markRedisErrors(
    resources.dispatcher.dispatchToDevices(toDispatch(delivery), recipients, {
      app: delivery.push.app,
      mayWait: true,
      // Errors here are not Redis's.
      beforeSend: (part) => beforeSend(part).catch(recordFailure),
      onResults: (part) => applyPart(part).catch(recordFailure),
    }),
  );
  if (failures.length > 0) throw failures[0];
  if (isWithheld) return 'may-not-send';
  return isFailing || includesResult(results, 'unreachable') ? 'failing' : 'delivered';
}

function includesResult(
  results: ReadonlyMap<number, DeviceResult>,
  searched: DeviceResult,
): boolean {
  for (const result of results.values()) if (result === searched) return true;
  return false;
}

/**
 * Applies results; recipients to retry stay pending, unless this was the last round. Returns true if some recipients are left
 * because their shard fails.
 */
async function applyResults(
  resources: MqttResources,
  delivery: Delivery,
  results: ReadonlyMap<number, DeviceResult>,
  isLastRound: boolean,
): Promise<boolean> {
  const pendingPositions: number[] = [];
  const sentPositions: number[] = [];
  let isFailing = false;
  // With `for … of` each entry of the map is an array.
  results.forEach((result, position) => {
    const nextStep = nextStepFor(delivery, result);
    if (nextStep === 'wait') isFailing = true;
    else if (nextStep === 'delivered') delivery.recordOutcome(position, OUTCOMES.delivered);
    else if (nextStep === 'superseded') delivery.recordOutcome(position, OUTCOMES.superseded);
    else if (nextStep === 'enqueue-as-sent') sentPositions.push(position);
    else if (nextStep === 'enqueue' || isLastRound) pendingPositions.push(position);
  });
  // Most pushes are acknowledged at once.
  if (pendingPositions.length === 0 && sentPositions.length === 0) return isFailing;
  const isLeft = await Promise.all([
    enqueue(resources, delivery, pendingPositions, false),
    enqueue(resources, delivery, sentPositions, true),
  ]);
  return isFailing || isLeft.includes(true);
}

function nextStepFor(delivery: Delivery, result: DeviceResult): NextStep {
  const isBusy = result === 'syncing' || result === 'backpressure';
  // It is connected, and a push with a time to live of 0 never enters an inbox: the replay ends in a moment.
  return isBusy && !hasTimeToLive(delivery) ? 'retry' : NEXT_STEP[result];
}

/**
 * Writes inbox rows, then reads presence: a device that connected in between read its inbox before the row was there,
 * so its gateway is notified to read again. Each side writes before it reads, so no timing matters.
 *
 * @returns true if recipients are left without an outcome because their shard of presence fails
 */
async function enqueue(
  resources: MqttResources,
  delivery: Delivery,
  requested: readonly number[],
  sent: boolean,
): Promise<boolean> {
  const { store } = resources;
  if (requested.length === 0) return false;
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
  if (positions.length === 0 || !delivery.maySendNow()) return false;
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
  const ends = { superseded, fullTokens, goneTokens };
  const isNotified = await notifyGateways(resources, push._id, rows, presenceEntries, ends);
  for (const [index, { token, position }] of rows.entries()) {
    const outcome = outcomeOf(token, ends);
    if (isNotified[index] || outcome !== OUTCOMES.inbox) delivery.recordOutcome(position, outcome);
  }
  return isNotified.includes(false);
}

/** Tokens whose rows were not written, or were removed. */
interface RowEnds {
  superseded: ReadonlySet<string>;
  fullTokens: ReadonlySet<string>;
  goneTokens: ReadonlySet<string>;
}

function outcomeOf(token: string, { superseded, fullTokens, goneTokens }: RowEnds): number {
  if (fullTokens.has(token)) return failureCode('inbox-full');
  if (goneTokens.has(token)) return OUTCOMES.gone;
  return superseded.has(token) ? OUTCOMES.superseded : OUTCOMES.inbox;
}

/**
 * Makes the gateways of connected devices read the inbox again; for devices in a shard that is `away`, through MongoDB.
 *
 * @returns for each row false if its shard fails: its gateway may not know of the row
 */
async function notifyGateways(
  { dispatcher, missedNotices }: MqttResources,
  push: string,
  rows: readonly PendingPush[],
  presenceEntries: readonly Presence[],
  ends: RowEnds,
): Promise<boolean[]> {
  const connected: Pick<DispatchRecipient, 'token' | 'presence'>[] = [];
  const missed: string[] = [];
  for (const [index, { token }] of rows.entries()) {
    const presence = presenceEntries[index];
    if (presence === undefined || outcomeOf(token, ends) !== OUTCOMES.inbox) continue;
    if (presence === 'away') missed.push(token);
    else if (presence !== 'failing') connected.push({ token, presence });
  }
  if (connected.length > 0) await markRedisErrors(dispatcher.notifyInboxes(push, connected));
  if (missed.length > 0) await missedNotices.report(missed);
  return rows.map((_, index) => presenceEntries[index] !== 'failing');
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

function recordAll(delivery: Delivery, positions: readonly number[], outcome: number): false {
  for (const position of positions) delivery.recordOutcome(position, outcome);
  return false;
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

/** Marks errors of Redis, to distinguish them from errors of MongoDB. */
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
