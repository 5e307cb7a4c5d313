import type { PushDocument } from '../../../packages/store/src/documents.ts';
import { type SentPush, sendPush } from '../faults/pushes.ts';
import type { TestMongo } from '../mongo.ts';
import type { Stack } from '../stack.ts';

const DAY_SECONDS = 86_400;

/** Schedules a push for tomorrow: what a test does before {@link makeDue} comes before its time on any machine. */
export function sendTomorrow(
  stack: Pick<Stack, 'api'>,
  to: string | readonly string[],
  fields: object = {},
): Promise<SentPush> {
  const schedule = Math.floor(Date.now() / 1_000) + DAY_SECONDS;
  return sendPush(stack, to, { ...fields, schedule });
}

/** Makes scheduled pushes due, at once or at a time. It survives the end of MongoDB. */
export async function makeDue(
  { db }: TestMongo,
  pushes: readonly Pick<SentPush, 'id'>[],
  dueAt = new Date(),
): Promise<void> {
  const ids = pushes.map(({ id }) => id);
  const update = async (collection: string, filter: object, field: string) => {
    const due = { ...filter, [field]: { $exists: true } };
    const writeConcern = { w: 1, journal: true };
    await db.collection(collection).updateMany(due, { $set: { [field]: dueAt } }, { writeConcern });
  };
  await update('batches', { push: { $in: ids } }, 'work.at');
  for (const field of ['work.at', 'fan.at', 'dueAt'])
    await update('pushes', { _id: { $in: ids } }, field);
}

/** Makes a push expire now, whatever it has reached until then. */
export async function expireNow({ db }: TestMongo, { id }: Pick<SentPush, 'id'>): Promise<void> {
  const now = new Date();
  const pushes = db.collection<PushDocument>('pushes');
  await pushes.updateOne({ _id: id }, { $set: { expiresAt: now, sendUntil: now } });
}
