import type { Stack } from '../stack.ts';

/** One page of `GET /topics/<topic>`. */
export interface SubscriberPage {
  subscribers: string[];
  pagination?: string;
}

/** Calls of the API about topics. */
export function createTopicCalls(stack: () => Pick<Stack, 'api'>) {
  const changeSubscription =
    (verb: string) => async (token: string | undefined, topics: readonly string[]) =>
      (await stack().api('POST', `/topics/${verb}`, { token, topics })).status;

  /** A page by its link, the first one without. */
  async function getPage(topic: string, path = `/topics/${topic}`): Promise<SubscriberPage> {
    return (await stack().api<SubscriberPage>('GET', path)).json;
  }

  return {
    /** Returns the HTTP status. */
    subscribe: changeSubscription('subscribe'),
    /** Returns the HTTP status. */
    unsubscribe: changeSubscription('unsubscribe'),
    pageOf: getPage,

    /** Subscribers of a topic by its counter. */
    async getSubscriberCount(topic: string): Promise<number> {
      const { json } = await stack().api<{ topics: { name: string; subscribers: number }[] }>(
        'GET',
        '/topics',
      );
      return json.topics.find(({ name }) => name === topic)?.subscribers ?? 0;
    },

    /** Subscribers of a topic by its pages. */
    async allOf(topic: string): Promise<string[]> {
      let page = await getPage(topic);
      const all = [...page.subscribers];
      while (page.pagination !== undefined) {
        page = await getPage(topic, page.pagination);
        all.push(...page.subscribers);
      }
      return all;
    },

    /** A device's topics. */
    async topicsOf(token: string | undefined): Promise<string[]> {
      const { json } = await stack().api<{ subscriptions: string[] }>('GET', `/devices/${token}`);
      return json.subscriptions;
    },

    /** Does something so many times, at most `atOnce` at a time. */
    async inParallel(
      times: number,
      atOnce: number,
      work: (index: number) => Promise<unknown>,
    ): Promise<void> {
      let next = 0;
      const workOn = async () => {
        while (next < times) await work(next++);
      };
      await Promise.all(Array.from({ length: atOnce }, workOn));
    },
  };
}
