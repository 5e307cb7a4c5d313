import { newClaimId } from '@carillon/core/ids';
import type { Platform } from '@carillon/core/platforms';
import type { Collection, Db } from 'mongodb';
import type { SubscriptionDocument, TopicDocument } from './documents.ts';
import { bulkErrors } from './inserting.ts';
import { createTopicCounters } from './topic-counters.ts';

/** A device's subscription to one topic, as the fan-out needs it. */
export interface Subscriber {
  token: string;
  platform: Platform;
}

/** Marks of a change under way; a subscription with a leaving mark counts as gone. */
const JOINING = 1;
const LEAVING = -1;
/** Met a change of somebody else under way: the counter is not touched but counted anew by the sweep. */
const JOINING_RECOUNT = 2;
const LEAVING_RECOUNT = -2;
export const IS_LEAVING = { $in: [LEAVING, LEAVING_RECOUNT] };
export const IS_JOINING = { $in: [JOINING, JOINING_RECOUNT] };

function subscriptionId(app: string, topic: string, token: string): string {
  return `${app}:${topic}:${token}`;
}

/** All subscriptions of a topic, in order of token, from after a token. */
export function topicRange(app: string, topic: string, after = '') {
  return { $gt: `${app}:${topic}:${after}`, $lt: `${app}:${topic};` };
}

/** The topic's name and the token in a subscription's id; neither holds a colon. */
export function partsOf(id: string): { topic: string; token: string } {
  const [, topic = '', token = ''] = id.split(':');
  return { topic, token };
}

/**
 * Who is subscribed to what. A change marks the subscription, counts, and clears the mark: whatever dies in
 * between leaves a mark, whose topic the sweep counts anew (guarantee G12).
 */
export function createSubscriptions(db: Db) {
  const subscriptions = db.collection<SubscriptionDocument>('subscriptions');
  const counters = createTopicCounters(db.collection<TopicDocument>('topics'));
  return {
    subscribe: (app: string, device: Subscriber, topics: readonly string[]) =>
      subscribe(subscriptions, counters.add, app, device, topics),
    unsubscribe: (app: string, token: string, topics: readonly string[]) =>
      unsubscribe(subscriptions, counters.add, app, token, topics),

    /** Topics a device is subscribed to, in order of name. */
    topicsOf: async (token: string): Promise<string[]> => {
      const found = await subscriptions
        .find({ token, pending: { $not: IS_LEAVING } }, { projection: { _id: 1 } })
        .toArray();
      return found.map(({ _id }) => partsOf(_id).topic).sort();
    },

    /** A topic's subscribers in order of token, from after a token. */
    page: async (app: string, topic: string, after: string, limit: number): Promise<Subscriber[]> =>
      subscriptions
        .find({ _id: topicRange(app, topic, after), pending: { $not: IS_LEAVING } }, SUBSCRIBER)
        .sort({ _id: 1 })
        .limit(limit)
        .map(toSubscriber)
        .toArray(),

    /** The same as a stream. */
    stream: (app: string, topic: string, after: string): AsyncIterable<Subscriber> =>
      subscriptions
        .find({ _id: topicRange(app, topic, after), pending: { $not: IS_LEAVING } }, SUBSCRIBER)
        .sort({ _id: 1 })
        .map(toSubscriber),
  };
}

const SUBSCRIBER = { projection: { token: 1, platform: 1 }, batchSize: 1_001 } as const;

function toSubscriber({ token, platform }: SubscriptionDocument): Subscriber {
  return { token, platform };
}

type AddToCounters = ReturnType<typeof createTopicCounters>['add'];

async function subscribe(
  subscriptions: Collection<SubscriptionDocument>,
  addToCounters: AddToCounters,
  app: string,
  { token, platform }: Subscriber,
  topics: readonly string[],
): Promise<void> {
  const by = newClaimId();
  const names = [...new Set(topics)];
  const ids = names.map((topic) => subscriptionId(app, topic, token));
  const errors = await bulkErrors(
    subscriptions,
    ids.map((_id) => ({
      updateOne: {
        // An upsert, for MongoDB's own time in `since`; one that is there already is left as it is.
        filter: { _id, by },
        update: {
          $setOnInsert: { token, platform, pending: JOINING },
          $currentDate: { since: true },
        },
        upsert: true,
      },
    })),
  );
  for (const { duplicate, error } of errors.values()) if (!duplicate) throw error;
  const known = ids.filter((_, index) => errors.has(index));
  if (known.length > 0) {
    await subscriptions.updateMany(
      { _id: { $in: known }, pending: IS_LEAVING },
      { $set: { pending: JOINING_RECOUNT }, $unset: { by: true }, $currentDate: { since: true } },
    );
  }
  const added = ids.filter((_, index) => !errors.has(index));
  await addToCounters(added.map((id) => ({ app, topic: partsOf(id).topic, platform, n: 1 })));
  await subscriptions.updateMany(
    { _id: { $in: added }, by, pending: JOINING },
    { $unset: { pending: true, by: true } },
  );
}

async function unsubscribe(
  subscriptions: Collection<SubscriptionDocument>,
  addToCounters: AddToCounters,
  app: string,
  token: string,
  topics: readonly string[],
): Promise<void> {
  const by = newClaimId();
  const ids = topics.map((topic) => subscriptionId(app, topic, token));
  await subscriptions.updateMany(
    { _id: { $in: ids }, pending: { $exists: false } },
    { $set: { pending: LEAVING, by }, $currentDate: { since: true } },
  );
  await subscriptions.updateMany(
    { _id: { $in: ids }, pending: IS_JOINING },
    { $set: { pending: LEAVING_RECOUNT }, $unset: { by: true }, $currentDate: { since: true } },
  );
  const left = await subscriptions.find({ _id: { $in: ids }, by }, SUBSCRIBER).toArray();
  await addToCounters(
    left.map(({ _id, platform }) => ({ app, topic: partsOf(_id).topic, platform, n: -1 })),
  );
  await subscriptions.deleteMany({
    _id: { $in: left.map(({ _id }) => _id) },
    by,
    pending: LEAVING,
  });
}
