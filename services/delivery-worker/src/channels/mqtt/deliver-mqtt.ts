import { setTimeout as pause } from 'node:timers/promises';
import { failpointForEach } from '@carillon/core/failpoint';
import { failureCode, OUTCOMES } from '@carillon/core/outcomes';
import type {
  DeviceResult,
  Delivery as Dispatch,
  Dispatcher,
  Recipient,
  SendPermission,
} from '@carillon/presence/dispatcher';
import type { PresenceReader } from '@carillon/presence/presence-reader';
import { type PendingPush, rowId } from '@carillon/store/inbox';
import type { Store } from '@carillon/store/store';
import type { GetAppSettings } from '../../deliver/app-settings.ts';
import { trackProgress } from '../../deliver/batch-progress.ts';
import type { DeliverByChannel, Delivery } from '../../deliver/channel.ts';
import { findWriteDeadline } from '../../deliver/send-gate.ts';

/** Delays before a delivery that was not written is dispatched again. */
const BACKOFF_MS = [100, 300, 1_000, 2_000];
/** Delay of the next attempt after a failure of Redis. */
const REDIS_RETRY_MS = 1_000;

/** Resources of delivering over MQTT. */
export interface MqttResources {
  store: Pick<Store, 'inbox' | 'inboxQuota' | 'deletedDevices' | 'devices'>;
  getAppSettings: GetAppSettings;
  presenceReader: PresenceReader;
  dispatcher: Pick<Dispatcher, 'dispatchToDevices' | 'notifyInboxes'>;
}

/** Next step for a recipient after its gateway's result. */
type NextStep = 'delivered' | 'superseded' | 'enqueue' | 'enqueue-as-sent' | 'retry';

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
};

/**
 * Creates the delivery over MQTT: dispatches to the gateways of connected devices, and writes a row to the inbox of all
 * others. A connected device that acknowledges costs no write of its own.
 */
export function createDeliverMqtt(resources: MqttResources): DeliverByChannel {
  return async (delivery) => {
    // The gateway of one device may not reply for long.
    const progress = trackProgress(() => delivery.save(new Map()), delivery.pending);
    try {
      for (let round = 0; delivery.pending.size > 0; round += 1) {
        const maySend = await deliverRound(resources, delivery, round >= BACKOFF_MS.length);
        if (!maySend) return { done: false, retryAfterMs: 0 };
        if (delivery.pending.size > 0) await pause(BACKOFF_MS[round] ?? 0);
      }
      return { done: true };
    } catch (error) {
      if (!isRedisError(error)) throw error;
      // Presence is unknown: another attempt soon instead of inbox rows for the whole audience.
      return { done: false, retryAfterMs: REDIS_RETRY_MS };
    } finally {
      await progress.stop();
    }
  };
}

/**
 * Delivers once to each pending recipient. A part may wait for room at its gateway, so it is checked just before it is
 * sent.
 *
 * @returns false if nothing may be sent any more
 */
async function deliverRound(
  resources: MqttResources,
  delivery: Delivery,
  isLastRound: boolean,
): Promise<boolean> {
  const failures: unknown[] = [];
  const recordFailure = (error: unknown): undefined => void failures.push(error);
  let isWithheld = false;
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
    if (![...results.values()].includes('offline'))
      failpointForEach('dispatched', () => [...results.keys()].map(tokenAt));
    else if (!(await delivery.maySend())) {
      // Nothing was sent to them, so that their push may have ended since its state was read.
      isWithheld = true;
      return;
    }
    await applyResults(resources, delivery, results, isLastRound);
  }

  const recipients = [...delivery.pending].map((position) => ({
    token: tokenAt(position),
    position,
  }));
  await markRedisErrors(
    resources.dispatcher.dispatchToDevices(toDispatch(delivery), recipients, {
      app: delivery.push.app,
      mayWait: true,
      // Errors here are not Redis's.
      beforeSend: (part) => beforeSend(part).catch(recordFailure),
      onResults: (part) => applyPart(part).catch(recordFailure),
    }),
  );
  if (failures.length > 0) throw failures[0];
  return !isWithheld;
}

/** Applies results; recipients to retry stay pending, unless this was the last round. */
async function applyResults(
  resources: MqttResources,
  delivery: Delivery,
  results: ReadonlyMap<number, DeviceResult>,
  isLastRound: boolean,
): Promise<void> {
  const pendingPositions: number[] = [];
  const sentPositions: number[] = [];
  // With `for … of` each entry of the map is an array.
  results.forEach((result, position) => {
    const nextStep = nextStepFor(delivery, result);
    if (nextStep === 'delivered') delivery.recordOutcome(position, OUTCOMES.delivered);
    else if (nextStep === 'superseded') delivery.recordOutcome(position, OUTCOMES.superseded);
    else if (nextStep === 'enqueue-as-sent') sentPositions.push(position);
    else if (nextStep === 'enqueue' || isLastRound) pendingPositions.push(position);
  });
  await Promise.all([
    enqueue(resources, delivery, pendingPositions, false),
    enqueue(resources, delivery, sentPositions, true),
  ]);
}

function nextStepFor(delivery: Delivery, result: DeviceResult): NextStep {
  const isBusy = result === 'syncing' || result === 'backpressure';
  // It is connected, and a push with a time to live of 0 never enters an inbox: the replay may end meanwhile.
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
  const { store } = resources;
  if (requested.length === 0) return;
  if (!hasTimeToLive(delivery)) {
    for (const position of requested) delivery.recordOutcome(position, OUTCOMES.expired);
    return;
  }
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
  const offeredTokens = await findOffered(resources, push.app, fullTokens);
  const ends = { superseded, fullTokens, offeredTokens, goneTokens };
  const inInbox = rows.filter(({ token }) => outcomeOf(token, ends) === OUTCOMES.inbox);
  await markRedisErrors(notifyGateways(resources, push._id, inInbox));
  for (const { token, position } of rows) delivery.recordOutcome(position, outcomeOf(token, ends));
}

/** Tokens whose rows were not written, or were removed. */
interface RowEnds {
  superseded: ReadonlySet<string>;
  fullTokens: ReadonlySet<string>;
  /** Those of full inboxes whose devices get the push over FCM. */
  offeredTokens: ReadonlySet<string>;
  goneTokens: ReadonlySet<string>;
}

function outcomeOf(token: string, ends: RowEnds): number {
  const { superseded, fullTokens, offeredTokens, goneTokens } = ends;
  if (offeredTokens.has(token)) return OUTCOMES.offered;
  if (fullTokens.has(token)) return failureCode('inbox-full');
  if (goneTokens.has(token)) return OUTCOMES.gone;
  return superseded.has(token) ? OUTCOMES.superseded : OUTCOMES.inbox;
}

/** Finds the devices that get a push over FCM although their inbox is full. */
async function findOffered(
  { store, getAppSettings }: MqttResources,
  app: string,
  fullTokens: ReadonlySet<string>,
): Promise<ReadonlySet<string>> {
  if (fullTokens.size === 0 || (await getAppSettings(app)).fcm === undefined) return new Set();
  const reachable = await store.devices.filterWithFcmToken(app, [...fullTokens]);
  return new Set(reachable.map(({ token }) => token));
}

/** Makes the gateways of connected devices read the inbox again. */
async function notifyGateways(
  { presenceReader, dispatcher }: MqttResources,
  push: string,
  rows: readonly Pick<PendingPush, 'token'>[],
): Promise<void> {
  const entries = await presenceReader.lookup(rows.map(({ token }) => token));
  const connected = rows.flatMap(({ token }, index) => {
    const presence = entries[index];
    return presence === undefined ? [] : [{ token, presence }];
  });
  if (connected.length > 0) await dispatcher.notifyInboxes(push, connected);
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

/** Returns a push as a worker dispatches it. */
function toDispatch(delivery: Delivery): Dispatch {
  const { push, batch, span } = delivery;
  return {
    push: push._id,
    work: batch.id,
    claim: batch.claim,
    expiresAt: push.sendUntil.getTime(),
    ...(push.collapse !== undefined && { collapse: push.collapse }),
    payload: push.data,
    ...(!hasTimeToLive(delivery) && { hasNoRow: true as const }),
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
