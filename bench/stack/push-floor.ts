import type { Db } from 'mongodb';
import { newPushId } from '../../packages/core/src/ids.ts';
import type { PushDocument } from '../../packages/store/src/documents.ts';
import { workOf } from '../../packages/store/src/new-work.ts';

/**
 * Writes what accepting a push writes, alone, into a collection without further indexes: nobody who answers with a
 * durable yes can do less.
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
      work: workOf('mqtt', ['a'.repeat(22)], 'ready', now),
    });
  };
}
