import type { Store } from '@carillon/store/store';
import type { Subscriber } from '@carillon/store/subscriptions';
import type { TopicCounter, TopicSize } from '@carillon/store/topics';
import { AdminError } from './admin-error.ts';
import { type Page, type PageQuery, toPage } from './page.ts';
import { requireApp } from './require-app.ts';

/**
 * Lists the topics of an app in order of name, also those without subscribers.
 *
 * @throws AdminError APP_NOT_FOUND
 */
export async function listTopics(
  store: Pick<Store, 'apps' | 'topics'>,
  app: string,
  query: PageQuery,
): Promise<Page<TopicSize>> {
  await requireApp(store, app);
  const found = await store.topics.listPage(app, query.cursor ?? '', query.limit);
  return toPage(found, query, ({ name }) => name);
}

/**
 * Returns a topic with the number and the platforms of its subscribers.
 *
 * @throws AdminError APP_NOT_FOUND; TOPIC_NOT_FOUND if no device has ever subscribed to it
 */
export async function getTopic(
  store: Pick<Store, 'apps' | 'topics'>,
  app: string,
  name: string,
): Promise<TopicSize & TopicCounter> {
  await requireApp(store, app);
  const counter = (await store.topics.findCounters(app, [name])).get(name);
  if (counter !== undefined) return { name, ...counter };
  throw new AdminError('TOPIC_NOT_FOUND', `The app has no topic ${name}.`);
}

/** Lists the subscribers of a topic in order of token; none for an unknown topic. */
export async function listSubscribers(
  { subscriptions }: Pick<Store, 'subscriptions'>,
  app: string,
  topic: string,
  query: PageQuery,
): Promise<Page<Subscriber>> {
  const found = await subscriptions.listPage(app, topic, query.cursor ?? '', query.limit);
  return toPage(found, query, ({ token }) => token);
}
