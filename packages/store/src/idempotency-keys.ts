import type { Collection } from 'mongodb';
import { abandonOne, IS_LEASE_EXPIRED } from './accepting-lease.ts';
import type { Clock } from './clock.ts';
import type { PushDocument } from './documents.ts';

/** Validity of an idempotency key (guarantee G2). */
const IDEMPOTENCY_TTL_MS = 86_400_000;

/** Finds pushes by their idempotency keys. A unique index gives each key of an app to one push (store/migrate). */
export function createIdempotencyKeys(pushes: Collection<PushDocument>, clock: Pick<Clock, 'now'>) {
  /**
   * Checks whether the key of a push still counts: for a day, if the push was committed or its owner is still accepting it.
   */
  async function isInUse({ _id, state, acceptedAt }: PushDocument): Promise<boolean> {
    if (acceptedAt.getTime() <= clock.now() - IDEMPOTENCY_TTL_MS) return false;
    return state !== 'accepting' || !(await abandonOne(pushes, { _id, $expr: IS_LEASE_EXPIRED }));
  }

  /**
   * Waits until a push that was read is durable; undefined if a failover has undone its insert. The request that inserted
   * it may have failed while it waited for this, and a repeated request must not report it as accepted (guarantee G1).
   */
  async function findDurable(push: PushDocument): Promise<PushDocument | undefined> {
    // A push in state `accepting` is not reported as accepted.
    if (push.state === 'accepting') return push;
    // A write that changes nothing waits for the write concern of every write before it.
    const { matchedCount } = await pushes.updateOne({ _id: push._id }, { $set: { app: push.app } });
    return matchedCount === 1 ? push : undefined;
  }

  return {
    /**
     * Finds the push with an app's idempotency key and waits until it is durable; undefined when the key is free. A push in
     * state `accepting` whose lease has ended is abandoned, which frees its key.
     */
    async findByIdempotencyKey(app: string, key: string): Promise<PushDocument | undefined> {
      const found = await pushes.findOne({ app, 'idempotency.key': key });
      return found !== null && (await isInUse(found)) ? findDurable(found) : undefined;
    },

    /**
     * Finds the push whose idempotency key made an insert fail, durable. A key that no longer counts for its push is
     * taken from it.
     *
     * @returns undefined if the key is free
     */
    async findConflict(app: string, key: string): Promise<PushDocument | undefined> {
      const earlier = await pushes.findOne({ app, 'idempotency.key': key });
      if (earlier === null) return undefined;
      if (await isInUse(earlier)) return findDurable(earlier);
      await pushes.updateOne({ _id: earlier._id }, { $unset: { idempotency: true } });
      return undefined;
    },
  };
}
