import { newPushId } from '@carillon/core/ids';
import { failureCode, failureMask } from '@carillon/core/outcomes';
import { Binary, type Db } from 'mongodb';
import { createEmbeddedBatch } from '../src/create-batches.ts';
import type { PushDocument } from '../src/documents.ts';

const FAILED = Uint8Array.of(failureCode('rejected-by-provider'));
const LEFT_MS = 3_600_000;

/** Inserts a push of an app for each of these devices, which its provider has rejected. Returns their ids. */
export async function insertFailedPushes(
  db: Db,
  app: string,
  tokens: readonly string[],
): Promise<string[]> {
  const at = new Date();
  const sendUntil = new Date(at.getTime() + LEFT_MS);
  const pushes = tokens.map(
    (token): PushDocument => ({
      ...{ _id: newPushId(at.getTime()), app, state: 'finished', acceptedAt: at },
      ...{ expiresAt: sendUntil, sendUntil, data: '{}', devices: 1 },
      fan: { seq: 0, next: 0, done: true },
      work: {
        ...createEmbeddedBatch('mqtt', [token], 'ready', at).work,
        ...{ state: 'closed', outcomes: new Binary(FAILED), failedAt: at },
        failures: failureMask(FAILED),
      },
    }),
  );
  await db.collection<PushDocument>('pushes').insertMany(pushes);
  return pushes.map(({ _id }) => _id);
}
