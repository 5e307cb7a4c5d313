import { appendJsonFields } from '@carillon/core/json-object';
import { resultWithin } from '@carillon/core/with-timeout';
import type { DeviceResult, Dispatcher } from '@carillon/presence/dispatcher';
import type { GetAppSettings } from '../../deliver/app-settings.ts';
import type { DeliverByChannel, Delivery } from '../../deliver/channel.ts';
import { findWriteDeadline } from '../../deliver/send-gate.ts';

/** Time after a failure of Redis for which no batch reads presence: each would wait for its own failure. */
const REDIS_BACKOFF_MS = 2_000;
/** Maximum wait for receipts after APNs has responded; after it the outcomes so far are saved first. */
const SAVE_AFTER_MS = 200;

/** Resources of delivering over MQTT in parallel to APNs. */
export interface ApnsWithMqttResources {
  getAppSettings: GetAppSettings;
  dispatcher: Pick<Dispatcher, 'dispatchToDevices'>;
  onError(error: unknown): void;
}

type DeliveryResults = ReadonlyMap<number, DeviceResult>;
const NO_RESULTS: DeliveryResults = new Map();

/**
 * Creates the delivery to iOS devices through APNs, and in parallel to those that hold an MQTT connection (local push
 * connectivity): the SDK drops the later copy by `_pushyId`. APNs waits for nothing here; the batch waits for the
 * receipts of devices to which the push was written, at most a second and a half after the write deadline. A receipt
 * overrides any response of APNs, and a recipient that APNs has deferred isn't tried again. Without a receipt the
 * response of APNs stands: no inbox row, no retry over MQTT. When Redis fails the push goes through APNs alone.
 */
export function createApnsWithMqtt(
  resources: ApnsWithMqttResources,
  apns: DeliverByChannel,
): DeliverByChannel {
  let redisBackoffUntil = 0;

  async function tryDispatch(delivery: Delivery): Promise<DeliveryResults> {
    try {
      if (
        !(await resources.getAppSettings(delivery.push.app)).isIosOverMqtt ||
        performance.now() < redisBackoffUntil
      ) {
        return NO_RESULTS;
      }
      return await dispatchToConnected(resources, delivery);
    } catch (error) {
      redisBackoffUntil = performance.now() + REDIS_BACKOFF_MS;
      resources.onError(error);
      return NO_RESULTS;
    }
  }

  return async (delivery) => {
    const dispatching = tryDispatch(delivery);
    let received: DeliveryResults | undefined;
    void dispatching.then((results) => {
      received = results;
    });
    // A receipt overrides any response of APNs: a recipient is counted once this worker waits for none.
    const mayBeReceived = (position: number) =>
      received === undefined || received.get(position) === 'acknowledged';
    const save: Delivery['save'] = (deferred) => delivery.save(deferred, mayBeReceived);
    const saved = { ...delivery, save };
    const result = await apns({
      ...saved,
      recordParallelReceipts: async () => applyResults(delivery, await dispatching),
    });
    const apnsDoneAt = performance.now();
    applyResults(delivery, await saveWhileWaiting(saved, dispatching));
    if (result.done || delivery.pending.size === 0) return { done: true };
    const waitedMs = performance.now() - apnsDoneAt;
    return { ...result, retryAfterMs: Math.max(0, Math.ceil(result.retryAfterMs - waitedMs)) };
  };
}

/** Dispatches to pending recipients that are connected: recipients with a receipt are no longer pending. */
async function dispatchToConnected(
  resources: ApnsWithMqttResources,
  delivery: Delivery,
): Promise<DeliveryResults> {
  const { push, batch, span, tokens, pending } = delivery;
  const recipients = [...pending].map((position) => ({ token: tokens[position] ?? '', position }));
  const beforeSend = async () => {
    const deadline = await findWriteDeadline(delivery);
    const includes = (position: number) => !delivery.isSuperseded(position);
    return deadline === undefined ? undefined : { deadline, includes };
  };
  const failures: unknown[] = [];
  const results = await resources.dispatcher.dispatchToDevices(
    {
      push: push._id,
      work: batch.id,
      claim: batch.claim,
      expiresAt: push.sendUntil.getTime(),
      ...(push.collapse !== undefined && { collapse: push.collapse }),
      // As over APNs, so that the SDK reads the same id in both copies.
      payload: appendJsonFields(push.data, { _pushyId: push._id }),
      hasNoRow: true,
      ...(span !== undefined && { trace: span.traceparent }),
      ...(batch.notify && { notify: batch.notify }),
    },
    recipients,
    {
      app: push.app,
      // APNs delivers what has no room now.
      mayWait: false,
      beforeSend: () => beforeSend().catch((error: unknown) => void failures.push(error)),
    },
  );
  if (failures.length > 0) throw failures[0];
  return results;
}

/** Waits for the results. When they take long, the responses of APNs are saved first: a killed worker repeats few. */
async function saveWhileWaiting(
  delivery: Delivery,
  dispatching: Promise<DeliveryResults>,
): Promise<DeliveryResults> {
  const settledResults = await resultWithin(dispatching, SAVE_AFTER_MS, undefined);
  if (settledResults !== undefined) return settledResults;
  // An unfinished batch was saved already, with its deferrals. A failure shows again when the batch is settled.
  if (delivery.pending.size === 0) await delivery.save(new Map()).catch(() => undefined);
  return dispatching;
}

function applyResults(delivery: Delivery, results: DeliveryResults): void {
  for (const [position, result] of results) {
    if (result === 'acknowledged') delivery.recordReceipt(position);
    // It may have been written: its receipt would come later, through MongoDB.
    else if (result === 'unacked' || result === 'unanswered') delivery.expectLateReceipts();
  }
}
