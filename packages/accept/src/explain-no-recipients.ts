import { ApiError } from '@carillon/core/api-error';
import { TOPIC_NAME } from '@carillon/core/limits';
import type { Store } from '@carillon/store/store';
import type { PushRequest } from './parse-push.ts';

/** Beginning of every NO_RECIPIENTS text (compatibility page). */
const MESSAGE_PREFIX = 'No devices matched the specified condition.';
/** Number of tokens that are compared with the names of topics. */
const MAX_CHECKED_NAMES = 10;

/**
 * Creates the error for a push without recipients, with the reason. The text is the same for a token that does not
 * exist, is deleted or belongs to another app (guarantee G13).
 */
export async function createNoRecipientsError(
  store: Pick<Store, 'topics'>,
  app: string,
  { tokens, topics }: Pick<PushRequest, 'tokens' | 'topics'>,
): Promise<ApiError> {
  const intendedTopic = await findIntendedTopic(store, app, tokens);
  const reasons = [
    ...(tokens.length + topics.length === 0 ? ['No recipient was given.'] : []),
    ...(tokens.length === 1 ? ['The device token belongs to no device of this app.'] : []),
    ...(tokens.length > 1
      ? [`None of the ${tokens.length} device tokens belongs to a device of this app.`]
      : []),
    ...(topics.length === 1 ? [`The topic "${topics[0]}" has no subscribers.`] : []),
    ...(topics.length > 1 ? [`None of the ${topics.length} topics has subscribers.`] : []),
    ...(intendedTopic === undefined ? [] : [`Did you mean /topics/${intendedTopic}?`]),
  ];
  return new ApiError('NO_RECIPIENTS', [MESSAGE_PREFIX, ...reasons].join(' '));
}

/** Finds a topic of the app whose name was given as a token: `news`, `topics/news` or `/topic/news`. */
async function findIntendedTopic(
  store: Pick<Store, 'topics'>,
  app: string,
  tokens: readonly string[],
): Promise<string | undefined> {
  const names = tokens
    .slice(0, MAX_CHECKED_NAMES)
    .map((token) => token.replace(/^\/?topics?\//i, ''))
    .filter((name) => TOPIC_NAME.test(name));
  if (names.length === 0) return undefined;
  const counters = await store.topics.findCounters(app, [...new Set(names)]);
  return names.find((name) => (counters.get(name)?.subscribers ?? 0) > 0);
}
