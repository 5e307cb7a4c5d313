import { PLATFORMS, type Platform } from '@carillon/core/channels';
import type { Collection, Db } from 'mongodb';
import type { SubscriptionDocument, TopicDocument } from './documents.ts';
import {
  CLEAR_MARK,
  IS_SUBSCRIBING,
  IS_UNSUBSCRIBING,
  parseSubscriptionId,
  topicRange,
} from './subscriptions.ts';
import { countSubscribers } from './topic-counters.ts';

/** Age from which on a mark belongs to an interrupted change; a younger one may belong to a change in progress. */
const MARK_MAX_AGE_MS = 30_000;
const TOPICS_PER_PAGE = 1_000;

/** The counters of a topic. */
export interface TopicCounter {
  subscribers: number;
  /** Platforms of the subscribers. */
  platforms: Platform[];
}

/** A topic and the number of its subscribers. */
export interface TopicSize {
  name: string;
  subscribers: number;
}

/** Topics and their counters. */
export function createTopics(db: Db) {
  const topics = db.collection<TopicDocument>('topics');
  const subscriptions = db.collection<SubscriptionDocument>('subscriptions');

  return {
    /** Finds the counters of these topics; topics without any subscription so far are left out. */
    async findCounters(app: string, names: readonly string[]): Promise<Map<string, TopicCounter>> {
      const found = await topics
        .find({ _id: { $in: names.map((name) => `${app}:${name}`) } })
        .toArray();
      return new Map(
        found.map(({ _id, n }) => [
          _id.slice(app.length + 1),
          { subscribers: countSubscribers({ n }), platforms: listPlatforms(n) },
        ]),
      );
    },

    /** Lists an app's topics after the name `after`, in order of name, also those without subscribers. */
    listPage: (app: string, after: string, limit: number): Promise<TopicSize[]> =>
      listPage(topics, app, after, limit),

    /**
     * Reads an app's topics that have subscribers, in order of name: a page at a time, because an app may have millions. A
     * page may be empty.
     */
    async *pages(app: string): AsyncGenerator<TopicSize[]> {
      let after: string | undefined = '';
      while (after !== undefined) {
        const page: TopicSize[] = await listPage(topics, app, after, TOPICS_PER_PAGE);
        yield page.filter(({ subscribers }) => subscribers > 0);
        after = page.length < TOPICS_PER_PAGE ? undefined : page.at(-1)?.name;
      }
    },

    /** Recounts topics in which a change was interrupted. Returns how many. */
    async recountInterrupted(limit: number): Promise<number> {
      const interrupted = await subscriptions
        .find({
          pending: { $exists: true },
          $expr: { $lt: ['$since', { $subtract: ['$$NOW', MARK_MAX_AGE_MS] }] },
        })
        .sort({ since: 1 })
        .limit(limit)
        .toArray();
      const ids = new Set(
        interrupted.map(({ _id }) => `${_id.split(':', 1)[0]}:${parseSubscriptionId(_id).topic}`),
      );
      for (const id of ids) await recount(topics, subscriptions, id);
      return ids.size;
    },
  };
}

function listPlatforms(counters: TopicDocument['n']): Platform[] {
  return PLATFORMS.filter((platform) => (counters[platform] ?? 0) > 0);
}

async function listPage(
  topics: Collection<TopicDocument>,
  app: string,
  after: string,
  limit: number,
): Promise<TopicSize[]> {
  const found = await topics
    .find({ _id: { $gt: `${app}:${after}`, $lt: `${app};` } }, { batchSize: limit + 1 })
    .sort({ _id: 1 })
    .limit(limit)
    .toArray();
  return found.map((topic) => ({
    name: topic._id.slice(app.length + 1),
    subscribers: countSubscribers(topic),
  }));
}

/** Recounts one topic, unless it changes meanwhile; then the next run does. */
async function recount(
  topics: Collection<TopicDocument>,
  subscriptions: Collection<SubscriptionDocument>,
  id: string,
): Promise<void> {
  const [app = '', topic = ''] = id.split(':');
  const current = await topics.findOneAndUpdate(
    { _id: id },
    { $setOnInsert: { n: {}, v: 0 } },
    { upsert: true, returnDocument: 'after' },
  );
  const range = { _id: topicRange(app, topic) };
  const isOld = { $expr: { $lt: ['$since', { $subtract: ['$$NOW', MARK_MAX_AGE_MS] }] } };
  const counts = await subscriptions
    .aggregate<{ _id: { platform: string; fresh: boolean; leaving: boolean }; n: number }>([
      { $match: range },
      {
        $group: {
          _id: {
            platform: '$platform',
            fresh: {
              $and: [
                { $ne: [{ $type: '$pending' }, 'missing'] },
                { $gte: ['$since', { $subtract: ['$$NOW', MARK_MAX_AGE_MS] }] },
              ],
            },
            leaving: { $lt: [{ $ifNull: ['$pending', 0] }, 0] },
          },
          n: { $sum: 1 },
        },
      },
    ])
    .toArray();
  // A change in progress may have changed the counter already or not: the right number is unknown.
  if (counts.some(({ _id }) => _id.fresh)) return;
  const remaining = counts.filter(({ _id }) => !_id.leaving);
  const n = Object.fromEntries(
    remaining.map(({ _id, n: subscribers }) => [_id.platform, subscribers]),
  );
  const updated = await topics.updateOne(
    { _id: id, v: current?.v ?? 0 },
    { $set: { n }, $inc: { v: 1 } },
  );
  if (updated.matchedCount === 0) return;
  await subscriptions.updateMany({ ...range, pending: IS_SUBSCRIBING, ...isOld }, CLEAR_MARK);
  await subscriptions.deleteMany({ ...range, pending: IS_UNSUBSCRIBING, ...isOld });
}
