import { hasBit } from '@carillon/core/batch';
import { failpoint } from '@carillon/core/failpoint';
import { fallbackBatchId, isBatchId, primaryBatchId } from '@carillon/core/ids';
import { LIMITS } from '@carillon/core/limits';
import type { Db, Document } from 'mongodb';
import type { createBatches } from './batches.ts';
import type { Clock } from './clock.ts';
import type { BatchDocument, DeviceDocument, InboxDocument, PushDocument } from './documents.ts';
import { createFallbackBatch } from './fallback-batch.ts';
import type { createReceipts } from './final-outcomes.ts';
import { inboxRange } from './inbox.ts';
import { isDuplicateKey } from './mongo-errors.ts';
import type { createSubscriptions } from './subscriptions.ts';

/*
 * A device becomes a former one when another device of its app registers its provider address without a proof that it is the
 * same installation. From then on its credentials are rejected. It keeps its own copy of the address, marked by `formerOf`:
 * pushes to it go there and nowhere else, whatever becomes of its successor. Its topics become those of the successor, and
 * the pushes in its inbox are offered to FCM.
 */

/** Matches former devices. */
export const IS_FORMER = { replacedBy: { $exists: true } } as const;
/** Matches all other devices. */
export const IS_NOT_FORMER = { replacedBy: { $exists: false } } as const;
/** Matches, among the devices that have a provider address, the one that it belongs to. */
export const IS_HOLDER = { 'provider.formerOf': { $exists: false } } as const;

/** Rows of an inbox that are read together. */
const ROWS_PER_READ = 100;

/** The fields of a former device by which it is cleared. */
export const FORMER_FIELDS = {
  app: 1,
  platform: 1,
  provider: 1,
  replacedBy: 1,
  deletedAt: 1,
} as const;
export type FormerDevice = Pick<DeviceDocument, '_id' | keyof typeof FORMER_FIELDS>;

/**
 * Builds the update that makes a device a former one. The provider has the address again, whatever it reported before.
 *
 * @param by the token of its successor
 */
export function buildReplacement(by: string): Document[] {
  const isByFcm = { $eq: ['$provider.channel', 'fcm'] };
  const replaced = { replacedBy: { $literal: by }, replacedAt: '$$NOW', leaving: true };
  const address = { 'provider.formerOf': '$_id', 'provider.since': '$$NOW' };
  const way = { $cond: [isByFcm, 'fcm', '$$REMOVE'] };
  return [{ $set: { ...replaced, ...address, way } }, { $unset: ['uninstalled', 'unsubscribed'] }];
}

/** What may go on now that a device is cleared. */
export interface Cleared {
  /** Pushes that may be complete. */
  pushes: string[];
  /** Fallback batches over FCM that are due. */
  fallbacks: string[];
}

interface Collaborators {
  subscriptions: Pick<
    ReturnType<typeof createSubscriptions>,
    'listTopics' | 'subscribe' | 'unsubscribe'
  >;
  batches: Pick<ReturnType<typeof createBatches>, 'insertIfAbsent'>;
  receipts: Pick<ReturnType<typeof createReceipts>, 'recordFallback'>;
  clock: Pick<Clock, 'now'>;
}

type Successor = Pick<DeviceDocument, '_id' | 'platform' | 'ended'>;
const SUCCESSOR_FIELDS = { platform: 1, ended: 1 } as const;

/** Hands over what former devices have. */
export function createFormerDevices(db: Db, collaborators: Collaborators) {
  const { subscriptions } = collaborators;
  const devices = db.collection<DeviceDocument>('devices');

  /**
   * Finds the device that has replaced a former one. The process that replaced it may have died before it wrote that device, or
   * that device has ended: then the former one has its address and its credentials again, unless another device has registered
   * the address since, which is the successor then.
   */
  async function findSuccessor(former: FormerDevice): Promise<Successor | undefined> {
    const { _id, app, provider, replacedBy = '' } = former;
    const projection = SUCCESSOR_FIELDS;
    const named = await devices.findOne<Successor>({ _id: replacedBy }, { projection });
    if (named !== null && named.ended !== true) return named;
    const replaced = { _id, replacedBy };
    try {
      await devices.updateOne(replaced, {
        $unset: { replacedBy: true, replacedAt: true, leaving: true, 'provider.formerOf': true },
      });
      return undefined;
    } catch (error) {
      if (!isDuplicateKey(error)) throw error;
    }
    const address = provider?.address ?? '';
    const held = { app, 'provider.address': address, ...IS_HOLDER };
    const holder = await devices.findOne<Successor>(held, { projection });
    if (holder === null) throw new Error('the address of a former device was released meanwhile');
    await devices.updateOne(replaced, { $set: { replacedBy: holder._id } });
    return holder;
  }

  /**
   * Subscribes the successor to the topics of a former device, as many as it may have, if it is of the same platform.
   *
   * @returns those of these topics that the successor has now
   */
  async function addTopics(
    { app, platform }: FormerDevice,
    topics: readonly string[],
    successor: Successor,
  ): Promise<string[]> {
    if (topics.length === 0 || successor.platform !== platform) return [];
    const token = successor._id;
    const own = new Set(await subscriptions.listTopics(token));
    const room = Math.max(0, LIMITS.topicsPerDevice - own.size);
    const added = topics.filter((topic) => !own.has(topic)).slice(0, room);
    await subscriptions.subscribe(app, { token, platform }, added);
    return [...topics.filter((topic) => own.has(topic)), ...added];
  }

  return {
    /**
     * Moves the topics of a former device to its successor, and offers the pushes in its inbox to FCM. Idempotent.
     *
     * @returns what may go on, whether topics stay with it, and whether it is to be called again for pushes that a worker
     *   delivers right now
     */
    async handOver(
      former: FormerDevice,
    ): Promise<Cleared & { hasTopics: boolean; isInDelivery: boolean }> {
      const { _id, app, provider } = former;
      const nothing = { pushes: [], fallbacks: [], hasTopics: false, isInDelivery: false };
      const successor = await findSuccessor(former);
      if (successor === undefined) return nothing;
      // Its own former devices are those of its successor: a chain of them would take long to delete.
      // The successor is none of them, though this device may have proved itself and replaced it meanwhile.
      await devices.updateMany(
        { _id: { $ne: successor._id }, app, replacedBy: _id },
        { $set: { replacedBy: successor._id } },
      );
      const topics = await subscriptions.listTopics(_id);
      const moved = await addTopics(former, topics, successor);
      const hasTopics = moved.length < topics.length;
      failpoint('topics-added', _id);
      // A successor that was deleted or replaced meanwhile is cleared again: it may have got these topics, or this former
      // device, since it was cleared.
      await devices.updateOne(
        { _id: successor._id, $or: [{ deletedAt: { $exists: true } }, IS_FORMER] },
        { $set: { leaving: true } },
      );
      await subscriptions.unsubscribe(app, _id, moved);
      // Only devices with an FCM address have an inbox.
      if (provider?.channel !== 'fcm') return { ...nothing, hasTopics };
      const cleared = await offerRows({ db, ...collaborators }, former);
      failpoint('rows-offered', _id);
      return { ...cleared, hasTopics };
    },
  };
}

/**
 * Offers the rows of a device to FCM: inserts a fallback batch for each whose batch is closed and has none with the device.
 * A batch that is open gets its fallback from the worker that settles it, for all of its recipients: the next one that claims
 * it reads that the device is a former one, the one that holds it now may have read the device before. Rows of pushes that FCM
 * has accepted already end here: nobody acknowledges them any more.
 */
async function offerRows(
  { db, batches, receipts, clock }: Collaborators & { db: Db },
  { _id: token, app }: FormerDevice,
): Promise<Cleared & { isInDelivery: boolean }> {
  const inbox = db.collection<InboxDocument>('inbox');
  const { $gte: first, $lt: end } = inboxRange(token);
  const cleared = { pushes: [] as string[], fallbacks: [] as string[], isInDelivery: false };
  for (let after = first; ; ) {
    const rows = await inbox
      .find({ _id: { $gt: after, $lt: end } })
      .sort({ _id: 1 })
      .limit(ROWS_PER_READ)
      .toArray();
    const { sent, unoffered, isInDelivery } = await sortRows(db, token, rows);
    cleared.isInDelivery ||= isInDelivery;
    for (const { _id: row, work, push } of sent) {
      const ended = { sent: [token], done: [token], rowIds: [row], refused: [] };
      await receipts.recordFallback(work, { app, push, ...ended });
    }
    const hurried = await hurryFallbacks(db, token, rows);
    const nowMs = clock.now();
    const documents = unoffered.map(({ work: id, position, push }) => {
      const recipients = [{ token }];
      return createFallbackBatch({ id, position, push, app, recipients, dueAtMs: nowMs, nowMs });
    });
    if (documents.length > 0) await batches.insertIfAbsent(documents);
    cleared.pushes.push(...sent.map(({ push }) => push));
    cleared.fallbacks.push(...documents.map(({ _id }) => _id), ...hurried);
    const last = rows.at(-1);
    if (last === undefined || rows.length < ROWS_PER_READ) return cleared;
    after = last._id;
  }
}

/** Makes the fallbacks due that were created for this device alone, and are due later. Returns their ids. */
async function hurryFallbacks(
  db: Db,
  token: string,
  rows: readonly InboxDocument[],
): Promise<string[]> {
  const batches = db.collection<BatchDocument>('batches');
  const waiting = await batches
    .find(
      {
        _id: { $in: rows.flatMap(fallbackIdsOf) },
        ...{ 'work.tokens': token, 'work.state': 'ready', 'work.tries': 0 },
      },
      { projection: { _id: 1 }, batchSize: rows.length + 1 },
    )
    .toArray();
  const ids = waiting.map(({ _id }) => _id);
  if (ids.length > 0)
    await batches.updateMany({ _id: { $in: ids }, 'work.tries': 0 }, [
      { $set: { 'work.at': { $min: ['$work.at', '$$NOW'] } } },
    ]);
  return ids;
}

/** Lists the ids that a fallback with the recipient of a row may have. */
function fallbackIdsOf({ work, position }: Pick<InboxDocument, 'work' | 'position'>): string[] {
  return [fallbackBatchId(work), fallbackBatchId(work, position)];
}

/**
 * Finds the rows of closed batches that FCM has accepted as the fallback, those whose batch is closed and has no fallback
 * that tries the device before the delay of its app, and whether a worker may hold a batch of the others.
 */
async function sortRows(
  db: Db,
  token: string,
  rows: readonly InboxDocument[],
): Promise<{ sent: InboxDocument[]; unoffered: InboxDocument[]; isInDelivery: boolean }> {
  const ids = rows.map(({ work }) => work);
  const batches = db.collection<BatchDocument>('batches');
  const pushes = db.collection<PushDocument>('pushes');
  const projection = { 'work.state': 1, 'work.claim': 1, 'work.sent': 1 };
  const options = { projection, batchSize: rows.length + 1 };
  const lists = await Promise.all([
    pushes.find({ _id: { $in: ids.filter((id) => !isBatchId(id)) } }, options).toArray(),
    batches.find({ _id: { $in: ids.filter(isBatchId) } }, options).toArray(),
  ]);
  const found = lists.flat();
  const isClosed = ({ work }: (typeof found)[number]) => work?.state === 'closed';
  const closed = new Map(found.filter(isClosed).map(({ _id, work }) => [_id, work?.sent ?? {}]));
  // Read after them: a fallback is inserted before its batch is closed.
  const fallbacks = await batches
    .find(
      {
        _id: { $in: rows.flatMap(fallbackIdsOf) },
        $expr: { $gte: [{ $indexOfBytes: ['$work.tokens', token] }, 0] },
        $nor: [{ 'work.n': { $gt: 1 }, $expr: buildWaits(token) }],
      },
      { ...options, projection: { _id: 1 } },
    )
    .toArray();
  const existing = new Set(fallbacks.map(({ _id }) => primaryBatchId(_id)));
  return {
    sent: rows.filter(({ work, position }) => hasBit(closed.get(work) ?? {}, position)),
    unoffered: rows.filter(({ work }) => closed.has(work) && !existing.has(work)),
    isInDelivery: found.some((one) => !isClosed(one) && one.work?.claim !== undefined),
  };
}

/** Builds the expression of whether a recipient of a fallback was not tried yet, and is due later. */
function buildWaits(token: string): Document {
  const position = { $indexOfArray: [{ $split: ['$work.tokens', ' '] }, token] };
  const isLater = { $eq: [{ $first: '$$entry' }, position] };
  const later = {
    $filter: { input: { $ifNull: ['$work.later', []] }, as: 'entry', cond: isLater },
  };
  const [dueAt, retries] = [1, 2].map((n) => ({ $arrayElemAt: [{ $first: later }, n] }));
  return {
    $cond: [
      { $eq: [later, []] },
      { $and: [{ $eq: ['$work.tries', 0] }, { $gt: ['$work.at', '$$NOW'] }] },
      { $and: [{ $eq: [retries, 0] }, { $gt: [dueAt, { $toLong: '$$NOW' }] }] },
    ],
  };
}
