import { ApiError } from '@carillon/core/api-error';
import { DEVICE_TOKEN } from '@carillon/core/limits';
import type { Platform } from '@carillon/core/platforms';
import { check } from '../http/check.ts';
import { EVERY_TOPIC, subscribeRequest, unsubscribeRequest } from './schema.ts';

/** A device of the caller's. */
export interface Subscriber {
  token: string;
  platform: Platform;
}

/** What subscribing needs of the store. */
export interface SubscribeDeps {
  findRecipient(app: string, token: string): Promise<Subscriber | undefined>;
  subscribe(app: string, device: Subscriber, topics: readonly string[]): Promise<void>;
  unsubscribe(app: string, token: string, topics: readonly string[]): Promise<void>;
  topicsOf(token: string): Promise<string[]>;
}

/**
 * `POST /topics/subscribe` (specification 4.6).
 *
 * @throws ApiError INVALID_PARAM, INVALID_DEVICE_TOKEN
 */
export async function subscribe(
  deps: SubscribeDeps,
  app: string,
  value: unknown,
): Promise<{ success: true }> {
  const { token, topics } = check(subscribeRequest, value);
  await deps.subscribe(app, await deviceOf(deps, app, token), topics);
  return { success: true };
}

/**
 * `POST /topics/unsubscribe` (specification 4.7); `["*"]` drops all of the device's subscriptions.
 *
 * @throws ApiError INVALID_PARAM, INVALID_DEVICE_TOKEN
 */
export async function unsubscribe(
  deps: SubscribeDeps,
  app: string,
  value: unknown,
): Promise<{ success: true }> {
  const { token, topics } = check(unsubscribeRequest, value);
  await deviceOf(deps, app, token);
  const isAll = topics[0] === EVERY_TOPIC;
  await deps.unsubscribe(app, token, isAll ? await deps.topicsOf(token) : topics);
  return { success: true };
}

async function deviceOf(deps: SubscribeDeps, app: string, token: string): Promise<Subscriber> {
  const device = DEVICE_TOKEN.test(token) ? await deps.findRecipient(app, token) : undefined;
  if (device === undefined) throw new ApiError('INVALID_DEVICE_TOKEN');
  return device;
}
