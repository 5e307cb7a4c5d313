import { newObjectId } from '@carillon/core/ids';
import type { Db } from 'mongodb';
import { fromNow } from './clock.ts';
import type { RedriveDocument, RedriveFilter } from './documents.ts';
import { isDuplicateKey } from './mongo-errors.ts';

/** Results of old pushes that were handled together. */
export interface RedriveProgress {
  /** The last of them. */
  cursor: string;
  /** Old pushes for which a new one was accepted, and how many recipients these have. */
  done: number;
  recipients: number;
  /** The others, by reason. */
  skipped: Readonly<Record<string, number>>;
}

/** Re-drives: progress and leases. */
export function createRedrives(db: Db) {
  const redrives = db.collection<RedriveDocument>('redrives');
  return {
    /**
     * Creates a re-drive of an app's failures up to now.
     *
     * @param pushes only these pushes; absent: all that match the filter
     * @returns its id; undefined: another re-drive of the app is running
     */
    async create(
      app: string,
      filter: RedriveFilter & { to?: Date },
      pushes?: readonly string[],
    ): Promise<string | undefined> {
      const { to, ...rest } = filter;
      const _id = newObjectId();
      const redrive = {
        app,
        state: 'running' as const,
        filter: rest,
        ...(pushes !== undefined && { pushes: [...new Set(pushes)].sort() }),
        done: 0,
        recipients: 0,
        skipped: {},
      } satisfies Partial<RedriveDocument>;
      // Failures are marked with MongoDB's time: those before this write are included, however wrong this process's estimate.
      const times = {
        createdAt: '$$NOW',
        to: to === undefined ? '$$NOW' : { $min: [to, '$$NOW'] },
      };
      try {
        const document = { $mergeObjects: [{ $literal: { _id, ...redrive } }, times] };
        await redrives.updateOne({ _id }, [{ $replaceWith: document }], { upsert: true });
        return _id;
      } catch (error) {
        if (isDuplicateKey(error)) return undefined;
        throw error;
      }
    },

    find: async (id: string) => (await redrives.findOne({ _id: id })) ?? undefined,

    /** Returns whether a re-drive is running, under a lease or not. */
    hasRunning: async (): Promise<boolean> =>
      (await redrives.findOne({ state: 'running' }, { projection: { _id: 1 } })) !== null,

    /** Claims the oldest running re-drive whose lease is free or has ended by MongoDB's clock. */
    async claim(owner: string, leaseMs: number): Promise<RedriveDocument | undefined> {
      const hasLapsed = { $expr: { $lte: [{ $ifNull: ['$lease.until', new Date(0)] }, '$$NOW'] } };
      const claimed = await redrives.findOneAndUpdate(
        { state: 'running', ...hasLapsed },
        [{ $set: { lease: { owner: { $literal: owner }, until: fromNow(leaseMs) } } }],
        { sort: { createdAt: 1 }, returnDocument: 'after' },
      );
      return claimed ?? undefined;
    },

    /** Renews a lease. False: it was lost. */
    async renew(id: string, owner: string, leaseMs: number): Promise<boolean> {
      const { matchedCount } = await redrives.updateOne(
        { _id: id, state: 'running', 'lease.owner': owner },
        [{ $set: { 'lease.until': fromNow(leaseMs) } }],
      );
      return matchedCount === 1;
    },

    /** Saves how many old pushes a re-drive has. False: the lease was lost. */
    setTotal: (id: string, owner: string, total: number): Promise<boolean> =>
      updateOwn(id, owner, { $set: { total } }),

    /** Moves the cursor over old pushes and counts them with the same write. False: the lease was lost. */
    recordProgress(id: string, owner: string, progress: RedriveProgress): Promise<boolean> {
      const skipped = Object.entries(progress.skipped).map(([why, n]) => [`skipped.${why}`, n]);
      const { cursor, done, recipients } = progress;
      return updateOwn(id, owner, {
        $set: { cursor },
        $inc: { done, recipients, ...Object.fromEntries(skipped) },
      });
    },

    /** Ends a re-drive. `stopped`: before all of its pushes were handled. False: the lease was lost. */
    end: (id: string, owner: string, state: 'finished' | 'stopped'): Promise<boolean> =>
      updateOwn(id, owner, {
        $set: { state },
        $currentDate: { endedAt: true },
        $unset: { lease: true },
      }),
  };

  async function updateOwn(id: string, owner: string, update: object): Promise<boolean> {
    const filter = { _id: id, state: 'running' as const, 'lease.owner': owner };
    return (await redrives.updateOne(filter, update)).matchedCount === 1;
  }
}
