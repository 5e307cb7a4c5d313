import { ApiError } from '@carillon/core/api-error';
import { DEVICE_TOKEN, LIMITS } from '@carillon/core/limits';
import { validate } from '@carillon/core/validate';
import type { Recipient } from '@carillon/store/devices';
import type { Store } from '@carillon/store/store';
import { ALL_TOPICS, subscribeRequest, unsubscribeRequest } from './schema.ts';

const TOO_MANY_TOPICS = `A device can subscribe to at most ${LIMITS.topicsPerDevice.toLocaleString('en')} topics.`;

/** Collections that a change of subscriptions reads and writes. */
export type SubscriptionStore = Pick<Store, 'devices' | 'subscriptions'>;

/**
 * Handles `POST /topics/subscribe` (specification 4.6).
 *
 * @throws ApiError INVALID_PARAM, INVALID_DEVICE_TOKEN
 */
export async function subscribe(
  store: SubscriptionStore,
  app: string,
  value: unknown,
): Promise<{ success: true }> {
  const { token, topics } = validate(subscribeRequest, value);
  await runInSequence(token, async () => {
    const [device, currentTopics] = await Promise.all([
      requireDevice(store, app, token),
      store.subscriptions.listTopics(token),
    ]);
    if (new Set([...currentTopics, ...topics]).size > LIMITS.topicsPerDevice)
      throw new ApiError('INVALID_PARAM', TOO_MANY_TOPICS);
    await store.subscriptions.subscribe(app, device, topics);
  });
  return { success: true };
}

/** The last call in progress of each device that has one; bounded by the number of requests in progress. */
const lastCallByDevice = new Map<string, Promise<void>>();

/** Runs a device's calls one after the other: concurrent calls would each pass the check of the topic limit. */
async function runInSequence(token: string, call: () => Promise<void>): Promise<void> {
  const ownCall = (lastCallByDevice.get(token) ?? Promise.resolve()).then(call, call);
  lastCallByDevice.set(token, ownCall);
  try {
    await ownCall;
  } finally {
    if (lastCallByDevice.get(token) === ownCall) lastCallByDevice.delete(token);
  }
}

/**
 * Handles `POST /topics/unsubscribe` (specification 4.7); `["*"]` removes all subscriptions of the device.
 *
 * @throws ApiError INVALID_PARAM, INVALID_DEVICE_TOKEN
 */
export async function unsubscribe(
  store: SubscriptionStore,
  app: string,
  value: unknown,
): Promise<{ success: true }> {
  const { token, topics } = validate(unsubscribeRequest, value);
  await requireDevice(store, app, token);
  const isAll = topics[0] === ALL_TOPICS;
  const removed = isAll ? await store.subscriptions.listTopics(token) : topics;
  await store.subscriptions.unsubscribe(app, token, removed);
  return { success: true };
}

async function requireDevice(
  { devices }: Pick<Store, 'devices'>,
  app: string,
  token: string,
): Promise<Recipient> {
  const device = DEVICE_TOKEN.test(token) ? await devices.findRecipient(app, token) : undefined;
  if (device === undefined) throw new ApiError('INVALID_DEVICE_TOKEN');
  return device;
}
