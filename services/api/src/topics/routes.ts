import type { Store } from '@carillon/store/store';
import type { Routing } from '../http/routing.ts';
import type { RouteRegistrar } from '../http/server.ts';
import { listSubscribers } from './list-subscribers.ts';
import { listTopics, type TopicListContext } from './list-topics.ts';
import { subscribe, unsubscribe } from './subscribe.ts';

const BODY_BYTES = 128 * 1024;

/** Registers the routes that change and list subscriptions (specification 4.6 to 4.9). */
export function topicRoutes(
  routing: Routing,
  store: Store,
  context: TopicListContext,
): RouteRegistrar {
  return (router) => {
    router.post(
      '/topics/subscribe',
      routing.withApiKey({ maxBodyBytes: BODY_BYTES }, ({ body }, { app }) =>
        subscribe(store, app._id, body.value),
      ),
    );
    router.post(
      '/topics/unsubscribe',
      routing.withApiKey({ maxBodyBytes: BODY_BYTES }, ({ body }, { app }) =>
        unsubscribe(store, app._id, body.value),
      ),
    );
    router.get(
      '/topics',
      routing.withApiKey({}, (_, { app }) => listTopics(store, app._id, context)),
    );
    router.get(
      '/topics/:topic',
      routing.withApiKey({}, ({ params, query }, { app, apiKey }) =>
        listSubscribers(store, app._id, {
          topic: params.topic ?? '',
          page: query('page'),
          apiKey,
        }),
      ),
    );
  };
}
