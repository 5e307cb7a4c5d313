import type { Routing } from '../http/route.ts';
import type { Routes } from '../http/server.ts';
import { listSubscribers, type SubscriberListDeps } from './list-subscribers.ts';
import { type SubscribeDeps, subscribe, unsubscribe } from './subscribe.ts';

/** What the topic endpoints need. */
export interface TopicDeps extends SubscribeDeps, SubscriberListDeps {
  listTopics(app: string): Promise<{ name: string; subscribers: number }[]>;
}

const BODY_BYTES = 128 * 1024;

/** Topics and who is subscribed (specification 4.6 to 4.9). */
export function topicRoutes(routing: Routing, deps: TopicDeps): Routes {
  return (router) => {
    router.post(
      '/topics/subscribe',
      routing.backend({ bodyBytes: BODY_BYTES }, ({ body }, { app }) =>
        subscribe(deps, app._id, body.value),
      ),
    );
    router.post(
      '/topics/unsubscribe',
      routing.backend({ bodyBytes: BODY_BYTES }, ({ body }, { app }) =>
        unsubscribe(deps, app._id, body.value),
      ),
    );
    router.get(
      '/topics',
      routing.backend({}, async (_, { app }) => ({ topics: await deps.listTopics(app._id) })),
    );
    router.get(
      '/topics/:topic',
      routing.backend({}, ({ params, query }, { app, apiKey }) =>
        listSubscribers(deps, app._id, {
          topic: params.topic ?? '',
          page: query('page'),
          apiKey,
        }),
      ),
    );
  };
}
