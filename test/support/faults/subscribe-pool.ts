import type { SubscriptionDocument, TopicDocument } from '../../../packages/store/src/documents.ts';
import type { Stack } from '../stack.ts';
import type { Fixture } from './fixture.ts';

const DOCUMENTS_PER_INSERT = 10_000;

/** Subscribes the whole pool to a topic in bulk, straight in the database, counters included. */
export async function subscribePool(
  { stack, mongo, pool }: Pick<Fixture, 'mongo' | 'pool'> & { stack: Pick<Stack, 'dev'> },
  topic: string,
): Promise<string> {
  const { app } = stack.dev;
  const since = new Date();
  const subscriptions = mongo.db.collection<SubscriptionDocument>('subscriptions');
  for (let from = 0; from < pool.tokens.length; from += DOCUMENTS_PER_INSERT) {
    const chunk = pool.tokens.slice(from, from + DOCUMENTS_PER_INSERT).map((token) => {
      const _id = `${app}:${topic}:${token}`;
      return { _id, token, platform: 'electron' as const, since };
    });
    await subscriptions.insertMany(chunk, { ordered: false });
  }
  const counters = { _id: `${app}:${topic}`, n: { electron: pool.tokens.length }, v: 1 };
  await mongo.db.collection<TopicDocument>('topics').insertOne(counters);
  return `/topics/${topic}`;
}
