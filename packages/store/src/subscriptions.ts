import type { Platform } from '@carillon/core/channels';
import { newClaimId } from '@carillon/core/ids';
import type { Collection, Db } from 'mongodb';
import { bulkWriteErrors } from './bulk-write.ts';
import type { SubscriptionDocument, TopicDocument } from './documents.ts';
import { createTopicCounters } from './topic-counters.ts';

/** A subscriber of a topic, as the fan-out needs it. */
export interface Subscriber {
  token: string;
  platform: Platform;
}

/** Marks of a change in progress; a subscription that is marked UNSUBSCRIBING counts as removed. */
export const SUBSCRIBING = 1;
const UNSUBSCRIBING = -1;
/**
 * Marks of a subscription with two overlapping changes: neither changes the counter, the scheduler recounts the topic.
 */
const SUBSCRIBING_RECOUNT = 2;
const UNSUBSCRIBING_RECOUNT = -2;
export const IS_UNSUBSCRIBING = { $in: [UNSUBSCRIBING, UNSUBSCRIBING_RECOUNT] };
export const IS_SUBSCRIBING = { $in: [SUBSCRIBING, SUBSCRIBING_RECOUNT] };

/** Returns the id of a subscription. */
export function subscriptionId(app: string, topic: string, token: string): string {
  return `${app}:${topic}:${token}`;
}

/** Returns the id range of a topic's subscriptions after a token, in order of token. */
export function topicRange(app: string, topic: string, after = '') {
  return { $gt: `${app}:${topic}:${after}`, $lt: `${app}:${topic};` };
}

/** Parses the topic and the token out of a subscription's id; neither contains a colon. */
export function parseSubscriptionId(id: string): { topic: string; token: string } {
  const [, topic = '', token = ''] = id.split(':');
  return { topic, token };
}

/**
 * Subscriptions of devices to topics. A change marks the subscription, changes the counter, and clears the mark. If the
 * process dies in between, the mark stays and the scheduler recounts the topic (guarantee G12).
 */
export function createSubscriptions(db: Db) {
  const subscriptions = db.collection<SubscriptionDocument>('subscriptions');
  const counters = createTopicCounters(db.collection<TopicDocument>('topics'));
  return {
    subscribe: (app: string, device: Subscriber, topics: readonly string[]) =>
      subscribe(subscriptions, counters.add, app, device, topics),
    unsubscribe: (app: string, token: string, topics: readonly string[]) =>
      unsubscribe(
        { subscriptions, addToCounters: counters.add },
        app,
        topics.map((topic) => subscriptionId(app, topic, token)),
      ),
    /** Ends all subscriptions of an app's devices, some at a time: a thousand devices may have a million. */
    async unsubscribeAll(app: string, tokens: readonly string[]): Promise<void> {
      const isLeft = { token: { $in: [...tokens] }, pending: { $not: IS_UNSUBSCRIBING } };
      for (let isLast = false; !isLast; ) {
        const found = await subscriptions
          .find(isLeft, { projection: { _id: 1 }, batchSize: ENDED_AT_ONCE + 1 })
          .limit(ENDED_AT_ONCE)
          .toArray();
        const ids = found.map(({ _id }) => _id);
        await unsubscribe({ subscriptions, addToCounters: counters.add }, app, ids);
        isLast = found.length < ENDED_AT_ONCE;
      }
    },

    /** Lists the topics of a device, in order of name. */
    listTopics: async (token: string): Promise<string[]> => {
      const found = await subscriptions
        .find({ token, pending: { $not: IS_UNSUBSCRIBING } }, { projection: { _id: 1 } })
        .toArray();
      return found.map(({ _id }) => parseSubscriptionId(_id).topic).sort();
    },

    /** Lists a topic's subscribers after a token, in order of token. */
    listPage: async (
      app: string,
      topic: string,
      after: string,
      limit: number,
    ): Promise<Subscriber[]> =>
      subscriptions
        .find(
          { _id: topicRange(app, topic, after), pending: { $not: IS_UNSUBSCRIBING } },
          SUBSCRIBER_QUERY_OPTIONS,
        )
        .sort({ _id: 1 })
        .limit(limit)
        .map(toSubscriber)
        .toArray(),

    /** The same as a stream. */
    stream: (app: string, topic: string, after: string): AsyncIterable<Subscriber> =>
      subscriptions
        .find(
          { _id: topicRange(app, topic, after), pending: { $not: IS_UNSUBSCRIBING } },
          SUBSCRIBER_QUERY_OPTIONS,
        )
        .sort({ _id: 1 })
        .map(toSubscriber),
  };
}

/** Maximum subscriptions of many devices that end by the same statements. */
const ENDED_AT_ONCE = 1_000;

const SUBSCRIBER_QUERY_OPTIONS = {
  projection: { token: 1, platform: 1 },
  batchSize: 1_001,
} as const;

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
  const changeId = newClaimId();
  const names = [...new Set(topics)];
  const ids = names.map((topic) => subscriptionId(app, topic, token));
  const subscribers = new Map(ids.map((id) => [id, { token, platform }]));
  const added = await insertMarked(subscriptions, subscribers, changeId);
  const isAdded = new Set(added);
  const existing = ids.filter((id) => !isAdded.has(id));
  if (existing.length > 0) {
    await subscriptions.updateMany(
      { _id: { $in: existing }, pending: IS_UNSUBSCRIBING },
      {
        $set: { pending: SUBSCRIBING_RECOUNT },
        $unset: { by: true, importedSince: true },
        $currentDate: { since: true },
      },
    );
  }
  await addToCounters(
    added.map((id) => ({ app, topic: parseSubscriptionId(id).topic, platform, n: 1 })),
  );
  await subscriptions.updateMany(
    { _id: { $in: added }, by: changeId, pending: SUBSCRIBING },
    { $unset: { pending: true, by: true } },
  );
}

/**
 * Pipeline that clears the mark of a subscription. While the mark is there, `since` is the time of the change, which
 * shows how long the change has been in progress. Then the time of an imported subscription takes its place.
 */
export const CLEAR_MARK = [
  { $set: { since: { $ifNull: ['$importedSince', '$since'] } } },
  { $unset: ['pending', 'by', 'importedSince'] },
];

/**
 * Inserts subscriptions that are marked as being changed; existing ones stay.
 *
 * @param subscribers by the id of the subscription; with the time that an imported one has
 * @returns the ids of those that are new
 */
export async function insertMarked(
  subscriptions: Collection<SubscriptionDocument>,
  subscribers: ReadonlyMap<string, Subscriber & { since?: Date }>,
  changeId: string,
): Promise<string[]> {
  const errors = await bulkWriteErrors(
    subscriptions,
    [...subscribers].map(([_id, { token, platform, since: importedSince }]) => ({
      updateOne: {
        // An upsert, because only an update can set `since` to MongoDB's time; an existing subscription stays.
        filter: { _id, by: changeId },
        update: {
          $setOnInsert: {
            ...{ token, platform, pending: SUBSCRIBING },
            ...(importedSince && { importedSince }),
          },
          $currentDate: { since: true },
        },
        upsert: true,
      },
    })),
  );
  for (const { duplicate, error } of errors.values()) if (!duplicate) throw error;
  return [...subscribers.keys()].filter((_, index) => !errors.has(index));
}

async function unsubscribe(
  {
    subscriptions,
    addToCounters,
  }: { subscriptions: Collection<SubscriptionDocument>; addToCounters: AddToCounters },
  app: string,
  ids: readonly string[],
): Promise<void> {
  if (ids.length === 0) return;
  const changeId = newClaimId();
  await subscriptions.updateMany(
    { _id: { $in: [...ids] }, pending: { $exists: false } },
    { $set: { pending: UNSUBSCRIBING, by: changeId }, $currentDate: { since: true } },
  );
  await subscriptions.updateMany(
    { _id: { $in: [...ids] }, pending: IS_SUBSCRIBING },
    {
      $set: { pending: UNSUBSCRIBING_RECOUNT },
      $unset: { by: true },
      $currentDate: { since: true },
    },
  );
  const unsubscribed = await subscriptions
    .find({ _id: { $in: [...ids] }, by: changeId }, SUBSCRIBER_QUERY_OPTIONS)
    .toArray();
  await addToCounters(
    unsubscribed.map(({ _id, platform }) => ({
      app,
      topic: parseSubscriptionId(_id).topic,
      platform,
      n: -1,
    })),
  );
  await subscriptions.deleteMany({
    _id: { $in: unsubscribed.map(({ _id }) => _id) },
    by: changeId,
    pending: UNSUBSCRIBING,
  });
}
