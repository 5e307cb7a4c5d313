import type { Db } from 'mongodb';
import { until } from './until.ts';

const TIMEOUT_MS = 300_000;
const ID_ONLY = { projection: { _id: 1 } } as const;

/**
 * Waits until every recipient of a push with batches has an outcome or a row in its inbox. Each question is answered from an
 * index and without a document: it is asked during the measurement, on the same processors.
 */
export async function untilSettled(mongo: Db, push: string, everyMs: number): Promise<void> {
  const pushes = mongo.collection<{ _id: string }>('pushes');
  const batches = mongo.collection('batches');
  let isFannedOut = false;
  const isSettled = async () => {
    // After the fan-out no batch is added.
    isFannedOut ||= (await pushes.findOne({ _id: push, 'fan.done': true }, ID_ONLY)) !== null;
    if (!isFannedOut) return false;
    const open = { push, 'work.state': { $in: ['waiting', 'ready'] } };
    return (await batches.findOne(open, { projection: { _id: 0, push: 1 } })) === null;
  };
  await until('the push to be settled', isSettled, { everyMs, timeoutMs: TIMEOUT_MS });
}

/** Waits until no inbox contains a deleted push, so that the next measurement starts on an idle machine. */
export async function untilDeleted(mongo: Db, push: string): Promise<void> {
  const pushes = mongo.collection<{ _id: string }>('pushes');
  const isDeleted = async () => {
    const [row, ending] = await Promise.all([
      mongo.collection('inbox').findOne({ push }),
      pushes.findOne({ _id: push, ending: { $exists: true } }),
    ]);
    return row === null && ending === null;
  };
  await until('a deleted push to be removed', isDeleted, { everyMs: 100, timeoutMs: TIMEOUT_MS });
}
