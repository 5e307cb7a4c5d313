import type { Db } from 'mongodb';
import { until } from './until.ts';

const PATIENCE_MS = 300_000;

/** Waits until every recipient of a push with batches has an outcome or a row in its inbox. */
export async function untilWorked(mongo: Db, push: string, everyMs: number): Promise<void> {
  const pushes = mongo.collection<{ _id: string }>('pushes');
  const isWorked = async () => {
    // First the fan-out: once it is done, no batch is added.
    if ((await pushes.findOne({ _id: push, 'fan.done': true })) === null) return false;
    const open = { push, 'work.state': { $ne: 'closed' } };
    return (await mongo.collection('batches').findOne(open)) === null;
  };
  await until('a worked push', isWorked, { everyMs, timeoutMs: PATIENCE_MS });
}

/** Waits until nobody is owed a deleted push any more: the next measurement has the machine to itself. */
export async function untilGone(mongo: Db, push: string): Promise<void> {
  const pushes = mongo.collection<{ _id: string }>('pushes');
  const isGone = async () => {
    const [row, ending] = await Promise.all([
      mongo.collection('inbox').findOne({ push }),
      pushes.findOne({ _id: push, ending: { $exists: true } }),
    ]);
    return row === null && ending === null;
  };
  await until('a deleted push to be gone', isGone, { everyMs: 100, timeoutMs: PATIENCE_MS });
}
