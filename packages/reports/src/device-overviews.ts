import type { Clock } from '@carillon/store/clock';
import type {
  Batch,
  BatchDocument,
  DeviceDocument,
  InboxDocument,
  PushDocument,
  SubscriptionDocument,
} from '@carillon/store/documents';
import { inboxRange } from '@carillon/store/inbox';
import { DUE_PUSHES_INDEX } from '@carillon/store/migrate';
import { PARKED_AT } from '@carillon/store/parked-batches';
import { IS_UNSUBSCRIBING, parseSubscriptionId } from '@carillon/store/subscriptions';
import { type Collection, type Db, type Document, MongoServerError } from 'mongodb';
import { hasEnded, TRACKED_CHANNELS } from './pending.ts';

/** A device, and what is stored for it. */
export interface DeviceOverview {
  device: DeviceDocument;
  /** In order of name. */
  topics: string[];
  /** Ids of the app's pushes, due or not, that are pending for the device, in no order. */
  pendingPushes: Set<string>;
}

/**
 * Maximum time until the due time of a batch that is searched: longer than any lease or retry delay of these channels;
 * batches due later are scheduled.
 */
const LOOKAHEAD_MS = 30_000;
/** Maximum pushes of each form whose open batches are searched for a device. */
const MAX_PUSHES = 1_000;
/** Size of the first reply: more than all pushes and the device, so that it ends the cursor. */
const MAX_FOUND = 2 * MAX_PUSHES + 2;
/** Maximum duration of a search; a large backlog ends it, and no other begins for {@link SEARCH_PAUSE_MS}. */
const SEARCH_TIMEOUT_MS = 1_000;
const SEARCH_PAUSE_MS = 5_000;
/** MongoDB's error code of an operation that exceeded its time limit. */
const MAX_TIME_EXPIRED = 50;

/** An open batch of a device; one that is embedded in a push has the push's id. */
interface OpenBatch {
  _id: string;
  /** The push of a batch with a document of its own. */
  push?: string;
}

type StoredDevice = DeviceDocument & {
  rows: InboxDocument[];
  subscriptions: SubscriptionDocument[];
};

interface Found {
  open: OpenBatch[];
  stored?: StoredDevice | undefined;
}

interface Query {
  app: string;
  token: string;
}

/** Reads devices with their topics and pending pushes. */
export function createDeviceOverviews(db: Db, clock: Clock) {
  const devices = db.collection<DeviceDocument>('devices');
  const pushes = db.collection<PushDocument>('pushes');
  const batches = db.collection<BatchDocument>('batches');
  let pausedUntil = 0;

  /** A plain command: the driver's cursor would add a third to what its reply costs this process. */
  async function search(query: Query): Promise<Found> {
    const { cursor } = await db.command({
      aggregate: 'pushes',
      pipeline: buildSearch(query, clock.now()),
      cursor: { batchSize: MAX_FOUND },
      hint: DUE_PUSHES_INDEX,
      maxTimeMS: SEARCH_TIMEOUT_MS,
    });
    if (cursor.id !== 0) throw new Error('the reply about a device is too large');
    const found = cursor.firstBatch as (OpenBatch | StoredDevice)[];
    const last = found.at(-1);
    if (last === undefined || !('rows' in last)) return { open: [] };
    return { open: found.slice(0, -1), stored: last };
  }

  async function searchUnlessPaused(query: Query): Promise<Found> {
    if (performance.now() >= pausedUntil) {
      try {
        return await search(query);
      } catch (error) {
        if (!(error instanceof MongoServerError) || error.code !== MAX_TIME_EXPIRED) throw error;
        pausedUntil = performance.now() + SEARCH_PAUSE_MS;
      }
    }
    const [stored] = await devices.aggregate<StoredDevice>(buildRead(query)).toArray();
    return { open: [], stored };
  }

  return {
    /**
     * Finds a device of an app; undefined if it is absent, deleted or another app's, of which nothing more is read then.
     * The pushes of open batches are left out while there are too many batches to search.
     */
    async find(app: string, token: string): Promise<DeviceOverview | undefined> {
      const { open, stored } = await searchUnlessPaused({ app, token });
      if (stored === undefined) return undefined;
      const { rows, subscriptions, ...device } = stored;
      const unreceived =
        open.length > 0 ? await filterUnreceived({ pushes, batches }, token, open) : [];
      return {
        device,
        topics: listTopics(subscriptions),
        pendingPushes: new Set([...unreceived, ...rows.map(({ push }) => push)]),
      };
    },
  };
}

/**
 * Builds the search for a device and its open batches. One statement over all collections costs a third of separate
 * queries. It reads the inbox after the batches, because a batch writes its rows before it closes. `$unionWith` reads
 * one collection after the other; the device comes last, and its rows are looked up with it.
 *
 * The batches embedded in pushes come first, then those of their own; a push never changes from one form to the other.
 * A batch that is released during the scan moves ahead of it: the index has `waiting` before `ready`, and its other
 * fields never change.
 */
function buildSearch({ app, token }: Query, nowMs: number): Document[] {
  const isForToken = {
    app,
    // A token contains no character that has a meaning in a regular expression.
    'work.tokens': { $regex: `(^| )${token}( |$)` },
  };
  const embedded = {
    ...isForToken,
    'work.channel': { $in: TRACKED_CHANNELS },
    'work.state': 'ready',
    state: { $in: ['open', 'scheduled'] },
  };
  const dueSoon = { 'work.at': { $lte: new Date(nowMs + LOOKAHEAD_MS) } };
  const parked = { 'work.at': PARKED_AT };
  const own = {
    ...isForToken,
    $or: [dueSoon, parked],
    'work.state': { $in: ['waiting', 'ready'] },
    from: { $lte: token },
    to: { $gte: token },
    // Here no hint is possible. This form leaves out the index on due batches, and the one on unclosed ones remains; `$expr`
    // would too, and costs more.
    $nor: [{ 'work.channel': { $nin: TRACKED_CHANNELS } }],
  };
  const ownBatches = [
    { $match: own },
    { $sort: { 'work.state': -1 } },
    { $limit: MAX_PUSHES },
    { $project: { push: 1 } },
  ];
  return [
    // Both conditions in each branch: otherwise the index would lead over the batches that are due later.
    { $match: { $or: [dueSoon, parked].map((dueAt) => ({ ...embedded, ...dueAt })) } },
    { $limit: MAX_PUSHES },
    { $project: { _id: 1 } },
    { $unionWith: { coll: 'batches', pipeline: ownBatches } },
    { $unionWith: { coll: 'devices', pipeline: buildRead({ app, token }) } },
  ];
}

/** Builds the read of a device with its topics and inbox; both are read only if the device is the app's. */
function buildRead({ app, token }: Query): Document[] {
  return [
    // For an id alone MongoDB plans nothing; with both filters in one it compares indexes.
    { $match: { _id: token } },
    { $limit: 1 },
    { $match: { app, deletedAt: { $exists: false } } },
    { $lookup: { from: 'subscriptions', pipeline: [{ $match: { token } }], as: 'subscriptions' } },
    { $lookup: { from: 'inbox', pipeline: [{ $match: { _id: inboxRange(token) } }], as: 'rows' } },
  ];
}

/** Lists the topics in order of name. A condition on the mark would cost the statement more than the few marked ones do. */
function listTopics(subscriptions: readonly SubscriptionDocument[]): string[] {
  return subscriptions
    .filter(({ pending = 0 }) => !IS_UNSUBSCRIBING.$in.includes(pending))
    .map(({ _id }) => parseSubscriptionId(_id).topic)
    .sort();
}

/** Returns the pushes of those batches in which the device has no outcome, has not acknowledged and was not deleted. */
async function filterUnreceived(
  { pushes, batches }: { pushes: Collection<PushDocument>; batches: Collection<BatchDocument> },
  token: string,
  open: readonly OpenBatch[],
): Promise<string[]> {
  const isEmbedded = ({ push }: OpenBatch): boolean => push === undefined;
  const options = {
    projection: {
      push: 1,
      position: { $indexOfArray: [{ $split: ['$work.tokens', ' '] }, token] },
      outcomes: '$work.outcomes',
      got: '$work.got',
      gone: '$work.gone',
    },
    batchSize: open.length + 1,
  };
  type Match = OpenBatch & Pick<Batch, 'outcomes' | 'got' | 'gone'> & { position: number };
  const filterOf = (some: OpenBatch[]) => ({ _id: { $in: some.map(({ _id }) => _id) } });
  const [embedded, own] = [open.filter(isEmbedded), open.filter((one) => !isEmbedded(one))];
  const matches = await Promise.all([
    pushes.find<Match>(filterOf(embedded), options).toArray(),
    batches.find<Match>(filterOf(own), options).toArray(),
  ]);
  const unreceived = matches.flat().filter((match) => !hasEnded(match, match.position));
  return unreceived.map(({ _id, push = _id }) => push);
}
