import type { BatchDocument, PushDocument } from '@carillon/store/documents';
import { RECIPIENT_INDEX } from '@carillon/store/migrate';
import { statusIn } from '@carillon/store/recipient-status';
import { type Db, MongoServerError } from 'mongodb';
import type { createDeliveryStatus, DevicePush, DevicePushQuery } from './delivery-status.ts';

/** Maximum duration of a search: a device may be looked up in a thousand pushes of a thousand batches each. */
const SEARCH_TIMEOUT_MS = 1_500;
/** MongoDB's error code of an operation that exceeded its time limit. */
const MAX_TIME_EXPIRED = 50;

const PUSH_FIELDS = { state: 1, acceptedAt: 1, expiresAt: 1 } as const;

/** The last pushes to a device, and how far they were searched. */
export interface DevicePushSearch {
  pushes: DevicePush[];
  /** Number of the app's newest pushes that were searched. */
  scanned: number;
  /** False if some pushes of several batches were not searched, because it took too long. */
  isComplete: boolean;
}

/** Finds the last pushes to a device for operators, in batches of every kind. */
export function createPushesOfDevice(
  db: Db,
  status: Pick<ReturnType<typeof createDeliveryStatus>, 'findPushesOfDevice' | 'statusOfRecipient'>,
) {
  const pushes = db.collection<PushDocument>('pushes');
  const batches = db.collection<BatchDocument>('batches');

  /** Reads the ids of the app's newest pushes, and which of them have separate batches. */
  const scan = ({ app, before, scanLimit }: DevicePushQuery) =>
    pushes
      .aggregate<Pick<PushDocument, '_id'> & { isInBatches: boolean }>([
        { $match: { app, _id: { $lt: before }, state: { $ne: 'accepting' } } },
        { $sort: { _id: -1 } },
        { $limit: scanLimit },
        { $project: { isInBatches: { $eq: [{ $type: '$work' }, 'missing'] } } },
      ])
      .toArray();

  async function findInBatches(
    ids: readonly string[],
    token: string,
  ): Promise<Pick<BatchDocument, 'push' | 'work'>[] | undefined> {
    const filter = { push: { $in: [...ids] }, from: { $lte: token }, to: { $gte: token } };
    try {
      return await batches
        .find(
          { ...filter, 'work.fallback': { $exists: false } },
          { hint: RECIPIENT_INDEX, maxTimeMS: SEARCH_TIMEOUT_MS },
        )
        .toArray();
    } catch (error) {
      if (!(error instanceof MongoServerError) || error.code !== MAX_TIME_EXPIRED) throw error;
      return undefined;
    }
  }

  return {
    /** Finds the newest pushes to a device: those in its inbox, and those among the app's newest pushes. */
    async search(query: DevicePushQuery): Promise<DevicePushSearch> {
      const { token, limit } = query;
      const [known, scanned] = await Promise.all([status.findPushesOfDevice(query), scan(query)]);
      const knownIds = new Set(known.map(({ _id }) => _id));
      const inBatches = scanned.flatMap(({ _id, isInBatches }) =>
        isInBatches && !knownIds.has(_id) ? [_id] : [],
      );
      const found = inBatches.length === 0 ? [] : await findInBatches(inBatches, token);
      const added = await describe(found ?? [], token, limit);
      const newest = [...known, ...added].sort((a, b) => (a._id < b._id ? 1 : -1)).slice(0, limit);
      return { pushes: newest, scanned: scanned.length, isComplete: found !== undefined };
    },
  };

  async function describe(
    found: readonly Pick<BatchDocument, 'push' | 'work'>[],
    token: string,
    limit: number,
  ): Promise<DevicePush[]> {
    const statuses = new Map(
      found.flatMap(({ push, work }) => {
        const known = statusIn(work, token, push);
        return known === undefined ? [] : [[push, known] as const];
      }),
    );
    const heads = await pushes
      .find({ _id: { $in: [...statuses.keys()] } }, { projection: PUSH_FIELDS })
      .sort({ _id: -1 })
      .limit(limit)
      .toArray();
    return Promise.all(
      heads.map(async ({ _id, state, acceptedAt, expiresAt }) => {
        const known = statuses.get(_id) ?? { outcome: 'inbox' };
        // Without a row it has ended meanwhile, or a newer push replaced the row.
        const current =
          known.outcome === 'inbox' ? await status.statusOfRecipient(_id, token) : known;
        return { _id, state, acceptedAt, expiresAt, status: current ?? known };
      }),
    );
  }
}
