import { setTimeout as sleep } from 'node:timers/promises';
import { ApiError } from '@carillon/core/api-error';
import { newClaimId } from '@carillon/core/ids';
import { DEVICE_TOKEN, LIMITS } from '@carillon/core/limits';
import { validate } from '@carillon/core/validate';
import type { FoundRecipient } from '@carillon/store/devices';
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
/** Maximum devices in a row that have replaced each other, and were not cleared yet. */
const MAX_SUCCESSORS = 10;

/** Collections that a change of subscriptions reads and writes. */
export type SubscriptionStore = Pick<
  Store,
  'deletedDevices' | 'devices' | 'subscriptions' | 'topicChangeLocks'
>;

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
  await runInSequence(token, async () => {
    const device = await addTopics(store, app, token, topics);
    // They are for its successor.
    if (device.replacedBy !== undefined) await store.deletedDevices.clearAgain(token);
  });
  return { success: true };
}

async function addTopics(
  store: SubscriptionStore,
  app: string,
  token: string,
  topics: readonly string[],
): Promise<FoundRecipient> {
  const countAfter = async (): Promise<number> =>
    new Set([...(await store.subscriptions.listTopics(token)), ...topics]).size;
  // An error about the device comes first: the topics of another app's device are not disclosed.
  const [device, count] = await Promise.all([requireDevice(store, app, token), countAfter()]);
  checkLimit(count);
  if (count <= UNLOCKED_TOPICS) await store.subscriptions.subscribe(app, device, topics);
  // Calls of one device to several processes at once would each pass the check of the limit.
  else
    await withTopicLock(store, token, async () => {
      checkLimit(await countAfter());
      await store.subscriptions.subscribe(app, device, topics);
    });
  return device;
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
  let device: FoundRecipient | undefined = await requireDevice(store, app, token);
  // The topics of a former device are with its successor.
  for (let hops = 0; device !== undefined && hops < MAX_SUCCESSORS; hops += 1) {
    const isAll = topics[0] === ALL_TOPICS;
    const removed = isAll ? await store.subscriptions.listTopics(device.token) : topics;
    await store.subscriptions.unsubscribe(app, device.token, removed);
    const replacedBy: string | undefined = device.replacedBy;
    device =
      replacedBy === undefined ? undefined : await store.devices.findRecipient(app, replacedBy);
  }
  return { success: true };
}

async function requireDevice(
  { devices }: Pick<Store, 'devices'>,
  app: string,
  token: string,
): Promise<FoundRecipient> {
  const device = DEVICE_TOKEN.test(token) ? await devices.findRecipient(app, token) : undefined;
  if (device === undefined) throw new ApiError('INVALID_DEVICE_TOKEN');
  return device;
}
