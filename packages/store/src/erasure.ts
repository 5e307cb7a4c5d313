import { ERASED_TOKEN, eraseToken, hashToken, splitTokens } from '@carillon/core/batch';
import type { Collection, Db } from 'mongodb';
import type {
  BatchDocument,
  DeviceDocument,
  DeviceKeys,
  PushDocument,
  WebhookDocument,
} from './documents.ts';
import { RECIPIENT_INDEX } from './migrate.ts';

/** Maximum pushes that one step reads. */
const PUSHES_PER_STEP = 1_000;
/** Retention of the record of a deletion: a push that was being accepted may still name the device. */
const RECORD_RETENTION_MS = 600_000;
const KEY_FIELDS = { tokenHashes: 1, firstToken: 1 } as const;

/** Result of one step of an erasure. */
export interface ErasureStep {
  /** Pushes that were read. */
  scanned: number;
  /** Documents that named the device. */
  rewritten: number;
  /** The last push that was read; absent when there are no more. */
  next?: string;
}

/** Reason why the record of a deletion stays: until a time, or until the deletion is reported to the app's webhooks. */
export type KeptRecord = { kind: 'recent'; until: Date } | { kind: 'unreported' };

interface Tables {
  pushes: Collection<PushDocument>;
  batches: Collection<BatchDocument>;
}

/** Removes the token of a deleted device from everything that names it. */
export function createErasure(db: Db) {
  const tables: Tables = { pushes: db.collection('pushes'), batches: db.collection('batches') };
  const devices = db.collection<DeviceDocument>('devices');
  const webhooks = db.collection<WebhookDocument>('webhooks');
  const fullInboxes = db.collection<{ _id: string }>('full');
  return {
    /**
     * Rewrites the pushes of an app after the id `after`, a thousand of them. Recipients keep their positions and
     * outcomes; the token is replaced by a mark (core/batch). May be repeated.
     *
     * @param token without white space or characters that have a meaning in a regular expression
     */
    async eraseFromPushes(app: string, token: string, after: string): Promise<ErasureStep> {
      const ids = await tables.pushes
        .find(
          { app, _id: { $gt: after } },
          { projection: { _id: 1 }, batchSize: PUSHES_PER_STEP + 1 },
        )
        .sort({ _id: 1 })
        .limit(PUSHES_PER_STEP)
        .map(({ _id }) => _id)
        .toArray();
      if (ids.length === 0) return { scanned: 0, rewritten: 0 };
      const rewritten =
        (await eraseFromHeads(tables, ids, token)) + (await eraseFromBatches(tables, ids, token));
      const last = ids.at(-1);
      const hasMore = ids.length === PUSHES_PER_STEP && last !== undefined;
      return { scanned: ids.length, rewritten, ...(hasMore && { next: last }) };
    },

    /**
     * Removes the record of a deleted device, ten minutes after its deletion at the earliest, and not before its events
     * were reported to the webhooks that are on.
     *
     * @returns why it stays; undefined if it is removed or there is none
     */
    async removeRecord(token: string, nowMs: number): Promise<KeptRecord | undefined> {
      await fullInboxes.deleteOne({ _id: token });
      const deletedBefore = new Date(nowMs - RECORD_RETENTION_MS);
      const reportedTo: string[] = await devices.distinct('notify.w', { _id: token });
      const unreported = await webhooks
        .find({ _id: { $in: reportedTo }, off: { $exists: false } }, { projection: { _id: 1 } })
        .map(({ _id }) => _id)
        .toArray();
      await devices.deleteOne({
        _id: token,
        deletedAt: { $lte: deletedBefore },
        leaving: { $exists: false },
        'notify.w': { $nin: unreported },
      });
      const left = await devices.findOne({ _id: token, deletedAt: { $exists: true } });
      if (left?.deletedAt === undefined) return undefined;
      const until = new Date(left.deletedAt.getTime() + RECORD_RETENTION_MS);
      const isRecent = until.getTime() > nowMs || unreported.length === 0;
      return isRecent ? { kind: 'recent', until } : { kind: 'unreported' };
    },
  };
}

/** Rewrites batches that lie in their push, and the lists of named tokens of pushes to topics. */
async function eraseFromHeads(
  { pushes }: Tables,
  ids: readonly string[],
  token: string,
): Promise<number> {
  const contains = { $regex: `(^| )${token}( |$)` };
  const filter = { _id: { $in: [...ids] } };
  let rewritten = 0;
  for (;;) {
    const found = await pushes
      .find(
        { ...filter, $or: [{ 'work.tokens': contains }, { 'audience.tokens': contains }] },
        { projection: { ...KEY_FIELDS, 'work.tokens': 1, 'audience.tokens': 1 } },
      )
      .limit(PUSHES_PER_STEP)
      .toArray();
    if (found.length === 0) return rewritten;
    const { modifiedCount } = await pushes.bulkWrite(
      found.map(({ _id, work, audience, ...keys }) => {
        const fields = {
          ...(work && { 'work.tokens': work.tokens }),
          ...(audience && { 'audience.tokens': audience.tokens }),
        };
        const erased = Object.entries(fields).map(([name, tokens]) => [
          name,
          eraseToken(tokens, token),
        ]);
        const update = {
          ...Object.fromEntries(erased),
          ...(work && createKeysOf(listRemaining(work.tokens, token), keys)),
        };
        // Only another erasure changes the tokens: then it is read again.
        return { updateOne: { filter: { _id, ...fields }, update: { $set: update } } };
      }),
      { ordered: false },
    );
    rewritten += modifiedCount;
  }
}

/** Rewrites the batches, found by the range of their tokens. */
async function eraseFromBatches(
  { batches }: Tables,
  ids: readonly string[],
  token: string,
): Promise<number> {
  let rewritten = 0;
  for (;;) {
    const found = await batches
      .find(
        {
          ...{ push: { $in: [...ids] }, from: { $lte: token }, to: { $gte: token } },
          'work.tokens': { $regex: `(^| )${token}( |$)` },
        },
        { projection: { ...KEY_FIELDS, 'work.tokens': 1 }, hint: RECIPIENT_INDEX },
      )
      .limit(PUSHES_PER_STEP)
      .toArray();
    if (found.length === 0) return rewritten;
    const { modifiedCount } = await batches.bulkWrite(
      found.map(({ _id, work: { tokens }, ...keys }) => {
        const remaining = listRemaining(tokens, token);
        const [from, to] = [remaining.at(0) ?? '', remaining.at(-1) ?? ''];
        const fields = { 'work.tokens': eraseToken(tokens, token), from, to };
        const update = { $set: { ...fields, ...createKeysOf(remaining, keys) } };
        return { updateOne: { filter: { _id, 'work.tokens': tokens }, update } };
      }),
      { ordered: false },
    );
    rewritten += modifiedCount;
  }
}

function listRemaining(joined: string, token: string): string[] {
  return splitTokens(joined).filter((one) => one !== token && one !== ERASED_TOKEN);
}

/** Creates the keys of the devices that stay, of the kind that the document has: another device may have the same hash. */
function createKeysOf(
  remaining: readonly string[],
  { tokenHashes, firstToken }: DeviceKeys,
): DeviceKeys {
  return {
    ...(tokenHashes !== undefined && { tokenHashes: remaining.map(hashToken) }),
    ...(firstToken !== undefined && {
      firstToken: remaining.at(0) ?? '',
      lastToken: remaining.at(-1) ?? '',
    }),
  };
}
