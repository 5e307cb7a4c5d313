import type { Db } from 'mongodb';
import { newPushId } from '../../packages/core/src/ids.ts';
import { createEmbeddedBatch } from '../../packages/store/src/create-batches.ts';
import type { PushDocument } from '../../packages/store/src/documents.ts';

/**
 * Measures the floor of accepting a push: the same write only, into a collection without secondary indexes. No
 * API with a durable 200 can do less.
 */
export function createPushFloor(mongo: Db, app: string): () => Promise<void> {
  const collection = mongo.collection<PushDocument>('bench-floor');
  return async () => {
    const now = new Date();
    await collection.insertOne({
      _id: newPushId(now.getTime()),
      app,
      state: 'open',
      acceptedAt: now,
      expiresAt: now,
      sendUntil: now,
      data: '{"message":"Hello"}',
      devices: 1,
      fan: { seq: 0, next: 0, done: true },
      ...createEmbeddedBatch('mqtt', ['a'.repeat(22)], 'ready', now),
    });
  };
}
