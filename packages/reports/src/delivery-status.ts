import { addOutcomes, type OutcomeCounts } from '@carillon/core/outcomes';
import type {
  Batch,
  BatchDocument,
  InboxDocument,
  PushDocument,
  RecipientProviderError,
  RecipientStatus,
} from '@carillon/store/documents';
import { iterateBatches } from '@carillon/store/final-outcomes';
import { rowId } from '@carillon/store/inbox';
import { RECIPIENT_INDEX } from '@carillon/store/migrate';
import { outcomeCodes, recipientsWithErrors, statusIn } from '@carillon/store/recipient-status';
import {
  findRowPositions,
  type InboxReading,
  type PositionBits,
  readInboxPositions,
} from '@carillon/store/superseded';
import type { Collection, Db, Filter } from 'mongodb';

/** Status of a push: its recipients by outcome. */
interface PushDeliveryStatus {
  id: string;
  state: PushDocument['state'];
  devices: number;
  outcomes: OutcomeCounts;
}

/** Recipients for which a provider returned an error. */
interface ProviderErrorList {
  recipients: RecipientProviderError[];
  total: number;
}

interface KnownRecipient {
  push: PushDocument;
  status: RecipientStatus;
}

interface Tables {
  pushes: Collection<PushDocument>;
  batches: Collection<BatchDocument>;
  inbox: Collection<InboxDocument>;
}

/** Reads the status or the outcome of recipients. */
export function createDeliveryStatus(db: Db) {
  const tables: Tables = {
    pushes: db.collection('pushes'),
    batches: db.collection('batches'),
    inbox: db.collection('inbox'),
  };
  return {
    /**
     * Counts the recipients of a push by outcome. While the push is open, `inbox` counts the devices that have an inbox
     * row, and `pending` those that no worker has tried yet. A recipient is superseded when a newer push of the
     * collapse key has replaced its row.
     *
     * @returns undefined if the push doesn't exist or is being removed
     */
    async statusOfPush(id: string): Promise<PushDeliveryStatus | undefined> {
      const push = await findPush(tables, id);
      return push && countRecipients(tables, push);
    },

    /**
     * Lists recipients of a push that a provider has deferred or rejected: the first `limit`, and how many there are.
     */
    async listProviderErrors(id: string, limit: number): Promise<ProviderErrorList> {
      const push = await findPush(tables, id);
      const recipients: RecipientProviderError[] = [];
      let total = 0;
      for await (const { work } of push === undefined ? [] : iterateBatches(tables, push)) {
        const recipientErrors = recipientsWithErrors(work);
        total += recipientErrors.length;
        recipients.push(...recipientErrors.slice(0, limit - recipients.length));
      }
      return { recipients, total };
    },

    /** Returns the status of one recipient; undefined if the push doesn't exist, is being removed or wasn't for it. */
    statusOfRecipient: (id: string, token: string): Promise<RecipientStatus | undefined> =>
      findStatus(tables, id, token),
  };
}

async function countRecipients(tables: Tables, push: PushDocument): Promise<PushDeliveryStatus> {
  if (push.counts !== undefined) return toPushStatus(push, push.counts);
  const first = await countOpen(tables, push);
  // Only a newer push of the collapse key replaces a row before its recipient has an outcome.
  if (first.counts.inbox === undefined || push.collapse === undefined)
    return toPushStatus(push, first.counts);
  const rows = await findRowPositions(tables, push._id);
  // Read again: receipts and final outcomes are written before rows go.
  const current = (await findPush(tables, push._id)) ?? push;
  const reading = { rows, before: first.inboxPositions };
  const counts = current.counts ?? (await countOpen(tables, current, reading)).counts;
  return toPushStatus(current, counts);
}

function toPushStatus(
  { _id, state, devices }: PushDocument,
  outcomes: OutcomeCounts,
): PushDeliveryStatus {
  return { id: _id, state, devices, outcomes };
}

/** Finds a push unless its removal is due: its batches may be gone already. */
async function findPush({ pushes }: Tables, id: string): Promise<PushDocument | undefined> {
  const filter: Filter<PushDocument> = {
    _id: id,
    $or: [{ purgeAt: { $exists: false } }, { $expr: { $gt: ['$purgeAt', '$$NOW'] } }],
  };
  return (await pushes.findOne(filter)) ?? undefined;
}

async function findStatus(
  tables: Tables,
  id: string,
  token: string,
): Promise<RecipientStatus | undefined> {
  const known = await findRecipient(tables, id, token);
  if (known?.status.outcome !== 'inbox' || (await hasInboxRow(tables, known, token)))
    return known?.status;
  // Read again: receipts and final outcomes are written before rows go. Only a newer push replaces a row.
  const current = await findRecipient(tables, id, token);
  if (current?.status.outcome !== 'inbox') return current?.status;
  return { ...current.status, outcome: 'superseded' };
}

/** Finds the batch of one recipient and returns what it knows. */
async function findRecipient(
  tables: Tables,
  id: string,
  token: string,
): Promise<KnownRecipient | undefined> {
  const push = await findPush(tables, id);
  if (push === undefined) return undefined;
  for await (const work of iterateBatchesFor(tables, push, token)) {
    const status = statusIn(work, token, id);
    if (status !== undefined) return { push, status };
  }
  return undefined;
}

async function* iterateBatchesFor(
  { batches }: Tables,
  push: Pick<PushDocument, '_id' | 'work'>,
  token: string,
): AsyncGenerator<Batch> {
  if (push.work !== undefined) {
    yield push.work;
    return;
  }
  const filter = { push: push._id, from: { $lte: token }, to: { $gte: token } };
  const holding = batches.find(
    { ...filter, 'work.fallback': { $exists: false } },
    // An index on the state would miss a batch that is closed meanwhile.
    { hint: RECIPIENT_INDEX },
  );
  for await (const { work } of holding) yield work;
}

async function hasInboxRow(
  { inbox }: Tables,
  { push: { _id, collapse } }: KnownRecipient,
  token: string,
): Promise<boolean> {
  const row = rowId({ token, push: _id, ...(collapse !== undefined && { collapse }) });
  return (await inbox.findOne({ _id: row, push: _id }, { projection: { _id: 1 } })) !== null;
}

/**
 * Counts the recipients of a push without counts of its own. With a reading, those that were `inbox` before the rows
 * were read, had no row and still are `inbox` count as superseded.
 */
async function countOpen(
  tables: Tables,
  push: Pick<PushDocument, '_id' | 'work'>,
  reading?: InboxReading,
): Promise<{ counts: OutcomeCounts; inboxPositions: PositionBits }> {
  const counts: OutcomeCounts = {};
  const inboxPositions: PositionBits = new Map();
  for await (const { id, work } of iterateBatches(tables, push)) {
    const codes = outcomeCodes(work);
    inboxPositions.set(id, readInboxPositions(id, codes, reading));
    addOutcomes(counts, codes);
  }
  return { counts, inboxPositions };
}
