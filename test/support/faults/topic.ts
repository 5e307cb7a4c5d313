import type { SubscriptionDocument, TopicDocument } from '../../../packages/store/src/documents.ts';
import type { Scene } from './scene.ts';

const DOCUMENTS_PER_INSERT = 10_000;

/** Subscribes the whole crowd to a topic in bulk, straight in the database, counters included. */
export async function subscribeCrowd(
  { stack, mongo, crowd }: Scene,
  topic: string,
): Promise<string> {
  const { app } = stack.dev;
  const since = new Date();
  const subscriptions = mongo.db.collection<SubscriptionDocument>('subscriptions');
  for (let from = 0; from < crowd.tokens.length; from += DOCUMENTS_PER_INSERT) {
    const some = crowd.tokens.slice(from, from + DOCUMENTS_PER_INSERT).map((token) => {
      const _id = `${app}:${topic}:${token}`;
      return { _id, token, platform: 'electron' as const, since };
    });
    await subscriptions.insertMany(some, { ordered: false });
  }
  const counters = { _id: `${app}:${topic}`, n: { electron: crowd.tokens.length }, v: 1 };
  await mongo.db.collection<TopicDocument>('topics').insertOne(counters);
  return `/topics/${topic}`;
}
