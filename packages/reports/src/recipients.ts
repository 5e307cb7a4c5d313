import { splitTokens } from '@carillon/core/batch';
import type { Channel } from '@carillon/core/channels';
import { batchId } from '@carillon/core/ids';
import {
  channelOfOutcome,
  describeOutcome,
  type Failure,
  OUTCOMES,
  type ReportedOutcome,
  toReportedOutcome,
} from '@carillon/core/outcomes';
import type { Batch, BatchDocument, InboxDocument, PushDocument } from '@carillon/store/documents';
import { rowId } from '@carillon/store/inbox';
import { RECIPIENT_INDEX } from '@carillon/store/migrate';
import { latencyMsAt } from '@carillon/store/receipt-times';
import { outcomeCodes, statusAt } from '@carillon/store/recipient-status';
import { markSuperseded } from '@carillon/store/superseded';
import type { Collection, Db } from 'mongodb';
import type { ReportedPush } from './push-outcomes.ts';

/** One recipient of a push. */
export interface ReportedRecipient {
  /** `*` stands for a device that was erased (core/batch). */
  token: string;
  outcome: ReportedOutcome;
  reason?: Failure;
  channel: Channel;
  /** Milliseconds from acceptance, or the due time, to the receipt. */
  milliseconds?: number;
  /** The provider's error. */
  detail?: string;
}

/** Attempt to reach a recipient over one channel. */
export interface ReportedAttempt extends Pick<ReportedRecipient, 'channel' | 'outcome'> {
  reason?: Failure;
  detail?: string;
  /** Number of times that the provider has deferred it. */
  tries?: number;
  /** Earliest time of the next try, ISO 8601. */
  nextTryAt?: string;
}

/** A recipient with its attempts: the channel of its platform first, then a fallback. */
export type TriedRecipient = ReportedRecipient & { attempts: ReportedAttempt[] };

/** A batch without its tokens, and the position of one recipient in it. */
export interface RecipientBatch {
  /** The push's id if the batch is embedded. */
  id: string;
  work: Omit<Batch, 'tokens'>;
  position: number;
}

/** Position in a push's recipients: the batch's id after that of its push, and a position in the batch. */
export interface RecipientCursor {
  batch: string;
  position: number;
}

export const FIRST_RECIPIENT: RecipientCursor = { batch: '', position: 0 };

/** Form of a cursor as text: the batch, and a position. */
const CURSOR = /^(-[0-9a-z]?\d{6,14})?\.(\d{1,5})$/;

/** Formats the position of a page as an opaque text. */
export function formatRecipientCursor({ batch, position }: RecipientCursor): string {
  return Buffer.from(`${batch}.${position}`).toString('base64url');
}

/** Parses the text of {@link formatRecipientCursor}; undefined if it is another one. Without a text it is the first. */
export function parseRecipientCursor(text: string | undefined): RecipientCursor | undefined {
  if (text === undefined) return FIRST_RECIPIENT;
  const [, batch = '', position] = CURSOR.exec(Buffer.from(text, 'base64url').toString()) ?? [];
  return position === undefined ? undefined : { batch, position: Number(position) };
}

/** A page of recipients. */
export interface RecipientPage {
  recipients: ReportedRecipient[];
  /** Start of the next page; absent on the last page. */
  next?: RecipientCursor;
}

/** Maximum batches that a page with a filter reads, so that a rare outcome costs a bounded read. */
const MAX_SCANNED_BATCHES = 64;
const BATCHES_PER_READ = 8;

type Holder = { id: string; work: Batch };

interface Tables {
  pushes: Collection<PushDocument>;
  batches: Collection<BatchDocument>;
  inbox: Collection<InboxDocument>;
}

/** Reads the recipients of a push one by one, for the app that sent it. */
export function createRecipients(db: Db) {
  const tables: Tables = {
    pushes: db.collection('pushes'),
    batches: db.collection('batches'),
    inbox: db.collection('inbox'),
  };
  return {
    /**
     * Reads a page of at most `limit` recipients in order of batch and position, which never change. A page with a
     * filter may have fewer recipients, even none, and still have a next one; so may the last page of a push whose
     * topics are still being resolved. Each recipient is in one page, whatever is delivered meanwhile.
     *
     * @param outcome only recipients with this outcome
     */
    readPage: (
      push: ReportedPush,
      from: RecipientCursor,
      limit: number,
      outcome?: ReportedOutcome,
    ): Promise<RecipientPage> => readPage(tables, push, { from, limit, outcome }),

    /** Finds the position of a recipient, by index; undefined when the push is not for it. */
    async findPosition(push: ReportedPush, token: string): Promise<RecipientCursor | undefined> {
      for (const { id, work } of await findHolders(tables, push, token)) {
        const position = work.fallback ? -1 : splitTokens(work.tokens).indexOf(token);
        if (position >= 0) return { batch: id.slice(push._id.length), position };
      }
      return undefined;
    },

    /**
     * Finds one recipient and its attempts, by index: the channel of its platform first, then a fallback.
     * Undefined when the push is not for it.
     */
    findOne: (push: ReportedPush, token: string) => findOne(tables, push, token),
  };
}

interface PageRequest {
  from: RecipientCursor;
  limit: number;
  outcome?: ReportedOutcome | undefined;
}

async function readPage(
  tables: Tables,
  push: ReportedPush,
  { from, limit, outcome }: PageRequest,
): Promise<RecipientPage> {
  const recipients: ReportedRecipient[] = [];
  let scanned = 0;
  let end = from;
  for await (const { id, work } of iterateFrom(tables, push, from)) {
    const batch = id.slice(push._id.length);
    const first = batch === from.batch ? from.position : 0;
    // Before the reading of the inbox: a page must not end in the middle of a batch for this.
    if (scanned === MAX_SCANNED_BATCHES) return { recipients, next: { batch, position: first } };
    scanned += 1;
    const codes = await readCodes(tables, push, { id, work });
    const tokens = splitTokens(work.tokens);
    const describe = createDescriber({ id, work }, codes);
    for (let position = first; position < work.n; position += 1) {
      if (outcome !== undefined && reportedAt(codes, position) !== outcome) continue;
      if (recipients.length === limit) return { recipients, next: { batch, position } };
      recipients.push(describe(position, tokens[position] ?? ''));
    }
    end = { batch, position: work.n };
  }
  // Batches of topics are still to come: the next page begins where this one has ended.
  return push.fan.done ? { recipients } : { recipients, next: end };
}

/** Reads the primary batches from a cursor on, in order of their number. */
async function* iterateFrom(
  { batches }: Tables,
  push: ReportedPush,
  { batch }: RecipientCursor,
): AsyncGenerator<Holder> {
  if (push.work !== undefined) {
    if (batch === '') yield { id: push._id, work: push.work };
    return;
  }
  // The batches of a page of topics are inserted together: only those of complete pages are in their final order.
  const end = push.fan.done ? `${push._id}.` : batchId(push._id, push.fan.next);
  const stored = batches
    .find(
      {
        _id: { $gte: batch === '' ? batchId(push._id, 0) : `${push._id}${batch}`, $lt: end },
        'work.fallback': { $exists: false },
      },
      { batchSize: BATCHES_PER_READ },
    )
    .sort({ _id: 1 });
  for await (const { _id, work } of stored) yield { id: _id, work };
}

/** Returns the outcomes of a batch; recipients whose inbox row a newer push has replaced are superseded. */
async function readCodes(
  tables: Tables,
  push: ReportedPush,
  { id, work }: Holder,
): Promise<Uint8Array> {
  const codes = outcomeCodes(work);
  if (push.collapse === undefined || !codes.includes(OUTCOMES.inbox)) return codes;
  const tokens = splitTokens(work.tokens);
  const rowIdOf = (position: number) =>
    rowId({
      token: tokens[position] ?? '',
      push: push._id,
      ...(push.collapse !== undefined && { collapse: push.collapse }),
    });
  const inInbox = [...codes.keys()].filter((position) => codes[position] === OUTCOMES.inbox);
  const rows = await tables.inbox
    .find(
      { _id: { $in: inInbox.map(rowIdOf) }, push: push._id },
      { projection: { _id: 1 }, batchSize: inInbox.length + 1 },
    )
    .map((row) => row._id)
    .toArray();
  const present = new Set(rows);
  const withoutRow = new Set(inInbox.filter((position) => !present.has(rowIdOf(position))));
  if (withoutRow.size === 0) return codes;
  // Read again: receipts and final outcomes are written before rows go.
  const current = await readBatch(tables, push, id);
  const currentCodes = outcomeCodes(current ?? work);
  markSuperseded(currentCodes, (position) => withoutRow.has(position));
  return currentCodes;
}

async function readBatch(
  { pushes, batches }: Tables,
  push: ReportedPush,
  id: string,
): Promise<Batch | undefined> {
  const holder =
    id === push._id ? await pushes.findOne({ _id: id }) : await batches.findOne({ _id: id });
  return holder?.work;
}

function reportedAt(codes: Uint8Array, position: number): ReportedOutcome {
  return toReportedOutcome(describeOutcome(codes[position] ?? OUTCOMES.pending).outcome);
}

/** Creates the function that describes the recipients of one batch. */
function createDescriber(
  { id, work }: Omit<RecipientBatch, 'position'>,
  codes: Uint8Array,
): (position: number, token: string) => ReportedRecipient {
  const details = new Map(
    (work.words ?? []).flatMap(([word, positions]) =>
      positions.map((position) => [position, word] as const),
    ),
  );
  for (const [position, , , word] of work.state === 'closed' ? [] : (work.later ?? []))
    if (word !== undefined && !details.has(position)) details.set(position, word);
  return (position, token) => {
    const code = codes[position] ?? OUTCOMES.pending;
    const { outcome, reason } = describeOutcome(code);
    const milliseconds = latencyMsAt(work, position, code, id);
    const detail = details.get(position);
    return {
      token,
      outcome: toReportedOutcome(outcome),
      ...(reason !== undefined && { reason }),
      channel: channelOfOutcome(work.channel, code),
      ...(milliseconds > 0 && { milliseconds }),
      ...(detail !== undefined && { detail }),
    };
  };
}

/** Finds the batches that may hold a recipient by the range of their tokens, which overlap: a few for each push. */
async function findHolders(
  { batches }: Tables,
  push: ReportedPush,
  token: string,
): Promise<Holder[]> {
  const stored = await batches
    .find({ push: push._id, from: { $lte: token }, to: { $gte: token } }, { hint: RECIPIENT_INDEX })
    .toArray();
  const holders = stored.map(({ _id, work }) => ({ id: _id, work }));
  return push.work === undefined ? holders : [{ id: push._id, work: push.work }, ...holders];
}

async function findOne(
  tables: Tables,
  push: ReportedPush,
  token: string,
): Promise<TriedRecipient | undefined> {
  const holders = (await findHolders(tables, push, token)).flatMap(({ id, work }) => {
    const position = splitTokens(work.tokens).indexOf(token);
    return position < 0 ? [] : [{ id, work, position }];
  });
  const primary = holders.find(({ work }) => work.fallback === undefined);
  if (primary === undefined) return undefined;
  const codes = await readCodes(tables, push, primary);
  const fallbacks = holders.filter(({ work }) => work.fallback === true);
  return describeTried(token, codes, primary, ...fallbacks);
}

/**
 * Describes a recipient and its attempts.
 *
 * @param codes outcomes of the primary batch
 */
export function describeTried(
  token: string,
  codes: Uint8Array,
  primary: RecipientBatch,
  ...fallbacks: readonly RecipientBatch[]
): TriedRecipient {
  const recipient = createDescriber(primary, codes)(primary.position, token);
  return { ...recipient, attempts: [primary, ...fallbacks].flatMap(describeAttempt) };
}

/** Describes the attempt of a batch; none while no worker has claimed it and nothing has ended it. */
function describeAttempt({ id, work, position }: RecipientBatch): ReportedAttempt[] {
  if (work.tries === 0 && work.state !== 'closed') return [];
  // The answer of the fallback is that of its own attempt.
  const { sent: _sent, refused: _refused, ...attempted } = work;
  const { milliseconds: _, outcome, ...details } = statusAt(attempted, position, id);
  const reported = toReportedOutcome(outcome);
  // An MQTT batch that has begun over FCM has recipients that FCM itself accepted.
  const channel = reported === 'sent' && work.channel === 'mqtt' ? 'fcm' : work.channel;
  return [{ channel, outcome: reported, ...details }];
}
