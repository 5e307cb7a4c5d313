import { ApiError } from '@carillon/core/api-error';
import { DEVICE_TOKEN, LIMITS, TOPIC_NAME } from '@carillon/core/limits';
import type { Platform } from '@carillon/core/platforms';

/** What subscribing needs of the store. */
export interface SubscribeDeps {
  findRecipient(
    app: string,
    token: string,
  ): Promise<{ token: string; platform: Platform } | undefined>;
  subscribe(
    app: string,
    device: { token: string; platform: Platform },
    topics: readonly string[],
  ): Promise<void>;
  unsubscribe(app: string, token: string, topics: readonly string[]): Promise<void>;
  topicsOf(token: string): Promise<string[]>;
}

const EVERY_TOPIC = '*';

/**
 * `POST /topics/subscribe` (specification 4.6).
 *
 * @throws ApiError INVALID_PARAM, INVALID_DEVICE_TOKEN
 */
export async function subscribe(
  deps: SubscribeDeps,
  app: string,
  value: Record<string, unknown>,
): Promise<{ success: true }> {
  const topics = topicNames(value.topics);
  const device = await deviceOf(deps, app, value.token);
  await deps.subscribe(app, device, topics);
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
  value: Record<string, unknown>,
): Promise<{ success: true }> {
  const all =
    Array.isArray(value.topics) && value.topics.length === 1 && value.topics[0] === EVERY_TOPIC;
  const topics = all ? [] : topicNames(value.topics);
  const { token } = await deviceOf(deps, app, value.token);
  await deps.unsubscribe(app, token, all ? await deps.topicsOf(token) : topics);
  return { success: true };
}

function topicNames(value: unknown): string[] {
  const isList = Array.isArray(value) && value.length > 0;
  if (!isList)
    throw new ApiError('INVALID_PARAM', 'The parameter "topics" must be an array of names.');
  if (value.length > LIMITS.topicsPerSubscribe) {
    throw new ApiError('INVALID_PARAM', `At most ${LIMITS.topicsPerSubscribe} topics per request.`);
  }
  return value.map((topic: unknown) => {
    if (typeof topic === 'string' && TOPIC_NAME.test(topic)) return topic;
    throw new ApiError('INVALID_PARAM', 'A topic name must match [a-zA-Z0-9-_.]{1,100}.');
  });
}

async function deviceOf(deps: SubscribeDeps, app: string, token: unknown) {
  if (typeof token !== 'string') {
    throw new ApiError('INVALID_PARAM', 'The parameter "token" must be a string.');
  }
  const device = DEVICE_TOKEN.test(token) ? await deps.findRecipient(app, token) : undefined;
  if (device === undefined) throw new ApiError('INVALID_DEVICE_TOKEN');
  return device;
}
