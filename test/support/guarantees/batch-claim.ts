import type { TestMongo } from '../mongo.ts';
import { until } from '../until.ts';

/** State of the claim on a push of one batch. */
export interface Claim {
  state: 'ready' | 'closed';
  /** Absent until a worker takes it. */
  claim?: string;
  /** The reply stream of the worker, one for the whole life of its process. */
  reply?: string;
}

/** Reads the claim on a push that holds its only batch itself. */
export async function readClaim(
  mongo: TestMongo,
  push: { id: string },
): Promise<Claim | undefined> {
  const pushes = mongo.db.collection<{ _id: string; work?: Claim }>('pushes');
  return (await pushes.findOne({ _id: push.id }))?.work;
}

/** Waits until a worker has taken the work of a push. */
export function untilClaimed(mongo: TestMongo, push: { id: string }): Promise<Claim> {
  const taken = async () => {
    const claim = await readClaim(mongo, push);
    return claim?.claim !== undefined && claim;
  };
  return until(taken, { everyMs: 2, what: `push ${push.id} claimed` });
}
