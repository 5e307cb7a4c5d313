import { createBatcher } from '@carillon/core/batcher';
import type { Platform } from '@carillon/core/channels';
import type { Collection } from 'mongodb';
import type { TopicDocument } from './documents.ts';

/** A change of a topic's number of subscribers on one platform. */
export interface CounterChange {
  app: string;
  topic: string;
  platform: Platform;
  n: 1 | -1;
}

/**
 * Changes counters of topics. All concurrent changes of a topic in one process go into one update, so that a topic that
 * many devices join at once isn't written once per device.
 */
export function createTopicCounters(topics: Collection<TopicDocument>) {
  const addBatched = createBatcher<CounterChange, void>('change-topic-counter', async (changes) => {
    const sums = new Map<string, Record<string, number>>();
    for (const { app, topic, platform, n } of changes) {
      const id = `${app}:${topic}`;
      const sum = sums.get(id) ?? { v: 0 };
      sums.set(id, sum);
      sum[`n.${platform}`] = (sum[`n.${platform}`] ?? 0) + n;
      sum.v = (sum.v ?? 0) + 1;
    }
    await topics.bulkWrite(
      [...sums].map(([_id, $inc]) => ({
        updateOne: { filter: { _id }, update: { $inc }, upsert: true },
      })),
      { ordered: false },
    );
    return changes.map(() => undefined);
  });
  return {
    /** Applies changes durably. */
    add: async (changes: readonly CounterChange[]): Promise<void> => {
      await Promise.all(changes.map((change) => addBatched(change)));
    },
  };
}

/** Returns the number of a topic's subscribers by its counters. */
export function countSubscribers(topic: Pick<TopicDocument, 'n'> | undefined): number {
  return Object.values(topic?.n ?? {}).reduce((sum, n) => sum + Math.max(0, n), 0);
}
