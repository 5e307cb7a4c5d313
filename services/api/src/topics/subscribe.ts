import { setTimeout as sleep } from 'node:timers/promises';
import { ApiError } from '@carillon/core/api-error';
import { newClaimId } from '@carillon/core/ids';
import { DEVICE_TOKEN, LIMITS } from '@carillon/core/limits';
import { validate } from '@carillon/core/validate';
import type { Recipient } from '@carillon/store/device-ways';
import type { Store } from '@carillon/store/store';
import { ALL_TOPICS, subscribeRequest, unsubscribeRequest } from './schema.ts';

const TOO_MANY_TOPICS = `A device can subscribe to at most ${LIMITS.topicsPerDevice.toLocaleString('en')} topics.`;

/**
 * Maximum topics of a device after a call that needs no lock: a call adds so few that no concurrent call passes the
 * limit.
 */
const UNLOCKED_TOPICS = 200;
/** Interval between two attempts to get the lock; all attempts together stay within the deadline of a request. */
const LOCK_RETRY_MS = 20;
const MAX_LOCK_ATTEMPTS = 80;

/** Collections that a change of subscriptions reads and writes. */
export type SubscriptionStore = Pick<Store, 'devices' | 'subscriptions' | 'topicChangeLocks'>;

/**
 * Handles `POST /topics/subscribe` (specification 4.6).
 *
 * @throws ApiError INVALID_PARAM, INVALID_DEVICE_TOKEN, SERVICE_UNAVAILABLE
 */
export async function subscribe(
  store: SubscriptionStore,
  app: string,
  value: unknown,
): Promise<{ success: true }> {
  const { token, topics } = validate(subscribeRequest, value);
  const countAfter = async (): Promise<number> =>
    new Set([...(await store.subscriptions.listTopics(token)), ...topics]).size;
  await runInSequence(token, async () => {
    // An error about the device comes first: the topics of another app's device are not disclosed.
    const [device, count] = await Promise.all([requireDevice(store, app, token), countAfter()]);
    checkLimit(count);
    if (count <= UNLOCKED_TOPICS) return store.subscriptions.subscribe(app, device, topics);
    // Calls of one device to several processes at once would each pass the check of the limit.
    await withTopicLock(store, token, async () => {
      checkLimit(await countAfter());
      await store.subscriptions.subscribe(app, device, topics);
    });
  });
  return { success: true };
}

function checkLimit(topics: number): void {
  if (topics > LIMITS.topicsPerDevice) throw new ApiError('INVALID_PARAM', TOO_MANY_TOPICS);
}

/** The last call in progress of each device that has one; bounded by the number of requests in progress. */
const lastCallByDevice = new Map<string, Promise<void>>();

/** Runs a device's calls in this process one after the other, so that only one of them waits for the lock. */
async function runInSequence(token: string, call: () => Promise<void>): Promise<void> {
  const ownCall = (lastCallByDevice.get(token) ?? Promise.resolve()).then(call, call);
  lastCallByDevice.set(token, ownCall);
  try {
    await ownCall;
  } finally {
    if (lastCallByDevice.get(token) === ownCall) lastCallByDevice.delete(token);
  }
}

/** Runs a call while no other process changes the device's subscriptions. @throws ApiError SERVICE_UNAVAILABLE */
async function withTopicLock(
  { topicChangeLocks }: Pick<Store, 'topicChangeLocks'>,
  token: string,
  call: () => Promise<void>,
): Promise<void> {
  const owner = newClaimId();
  for (let attempt = 1; !(await topicChangeLocks.acquire(token, owner)); attempt += 1) {
    if (attempt === MAX_LOCK_ATTEMPTS) throw new ApiError('SERVICE_UNAVAILABLE');
    await sleep(LOCK_RETRY_MS);
  }
  try {
    await call();
  } finally {
    // The change is written; a lock that can't be released ends by itself.
    await topicChangeLocks.release(token, owner).catch(() => undefined);
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
