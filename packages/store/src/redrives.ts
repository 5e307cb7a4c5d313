import { newObjectId } from '@carillon/core/ids';
import type { Db } from 'mongodb';
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

/** A re-drive as a worker has read it. */
export type RedrivePosition = Pick<RedriveDocument, '_id' | 'cursor'>;

/** Re-drives and their progress. */
export function createRedrives(db: Db) {
  const redrives = db.collection<RedriveDocument>('redrives');
  return {
    /**
     * Creates a re-drive of an app's failures up to now.
     *
     * @param pushes only these pushes; all that match the filter if absent
     * @param by name of the operator who starts it
     * @returns its id; undefined if another re-drive of the app is running
     */
    async create(
      app: string,
      filter: RedriveFilter & { to?: Date },
      pushes?: readonly string[],
      by?: string,
    ): Promise<string | undefined> {
      const { to, ...rest } = filter;
      const _id = newObjectId();
      const redrive = {
        app,
        ...(by !== undefined && { by }),
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

    /** Lists the running re-drives, the oldest first. An index alone answers it while none is running. */
    async listRunning(limit: number): Promise<RedrivePosition[]> {
      return redrives
        .find<RedrivePosition>({ state: 'running' }, { projection: { cursor: 1 } })
        .sort({ createdAt: 1 })
        .limit(limit)
        .toArray();
    },

    /** Saves how many old pushes a re-drive has. */
    setTotal: (redrive: RedrivePosition, total: number): Promise<void> =>
      updateAt(redrive, { $set: { total } }),

    /** Moves the cursor over old pushes and counts them with the same write. */
    recordProgress(redrive: RedrivePosition, progress: RedriveProgress): Promise<void> {
      const skipped = Object.entries(progress.skipped).map(([why, n]) => [`skipped.${why}`, n]);
      const { cursor, done, recipients } = progress;
      return updateAt(redrive, {
        $set: { cursor },
        $inc: { done, recipients, ...Object.fromEntries(skipped) },
      });
    },

    /** Ends a re-drive. `stopped`: before all of its pushes were handled. */
    end: (redrive: RedrivePosition, state: 'finished' | 'stopped'): Promise<void> =>
      updateAt(redrive, { $set: { state }, $currentDate: { endedAt: true } }),
  };

  /** Updates a re-drive while it is where the caller has read it: of two workers on one page, the second changes nothing. */
  async function updateAt({ _id, cursor }: RedrivePosition, update: object): Promise<void> {
    const position = cursor ?? { $exists: false };
    await redrives.updateOne({ _id, state: 'running', cursor: position }, update);
  }
}
