import type { Db } from 'mongodb';
import type { SubscriptionDocument, TopicDocument } from './documents.ts';
import { IS_JOINING, IS_LEAVING, partsOf, topicRange } from './subscriptions.ts';
import { totalOf } from './topic-counters.ts';

/** A mark younger than this may belong to a change that is still running. */
const MARK_MAX_AGE_MS = 30_000;

/** What a topic's counters tell. */
export interface TopicCounter {
  subscribers: number;
  /** Whether iOS devices are among them. */
  hasIos: boolean;
}

/** Topics and their counters. */
export function createTopics(db: Db) {
  const topics = db.collection<TopicDocument>('topics');
  const subscriptions = db.collection<SubscriptionDocument>('subscriptions');

  /** Counts one topic anew, unless it changes meanwhile; then the next sweep does. */
  async function recount(id: string): Promise<void> {
    const [app = '', topic = ''] = id.split(':');
    const before = await topics.findOneAndUpdate(
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
    // A change that is running has counted already or will: its number can't be told.
    if (counts.some(({ _id }) => _id.fresh)) return;
    const staying = counts.filter(({ _id }) => !_id.leaving);
    const n = Object.fromEntries(staying.map(({ _id, n: some }) => [_id.platform, some]));
    const written = await topics.updateOne(
      { _id: id, v: before?.v ?? 0 },
      { $set: { n }, $inc: { v: 1 } },
    );
    if (written.matchedCount === 0) return;
    await subscriptions.updateMany(
      { ...range, pending: IS_JOINING, ...isOld },
      { $unset: { pending: true, by: true } },
    );
    await subscriptions.deleteMany({ ...range, pending: IS_LEAVING, ...isOld });
  }

  return {
    /** Counters of these topics; those never subscribed to are left out. */
    async counters(app: string, names: readonly string[]): Promise<Map<string, TopicCounter>> {
      const found = await topics
        .find({ _id: { $in: names.map((name) => `${app}:${name}`) } })
        .toArray();
      return new Map(
        found.map(({ _id, n }) => [
          _id.slice(app.length + 1),
          { subscribers: totalOf({ n }), hasIos: (n.ios ?? 0) > 0 },
        ]),
      );
    },

    /** An app's topics that have subscribers, in order of name. */
    async list(app: string): Promise<{ name: string; subscribers: number }[]> {
      const found = await topics.find({ _id: { $gt: `${app}:`, $lt: `${app};` } }).toArray();
      return found
        .map((topic) => ({ name: topic._id.slice(app.length + 1), subscribers: totalOf(topic) }))
        .filter(({ subscribers }) => subscribers > 0);
    },

    /** Counts topics anew in which a change broke off. Returns how many. */
    async recountBroken(limit: number): Promise<number> {
      const marked = await subscriptions
        .find({
          pending: { $exists: true },
          $expr: { $lt: ['$since', { $subtract: ['$$NOW', MARK_MAX_AGE_MS] }] },
        })
        .sort({ since: 1 })
        .limit(limit)
        .toArray();
      const ids = new Set(marked.map(({ _id }) => `${_id.split(':', 1)[0]}:${partsOf(_id).topic}`));
      for (const id of ids) await recount(id);
      return ids.size;
    },
  };
}
