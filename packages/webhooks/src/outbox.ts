import { newClaimId } from '@carillon/core/ids';
import { coverageOf, recipientEventOf, type WebhookEvent } from '@carillon/core/webhooks';
import { FAST_WRITE } from '@carillon/store/batch-holders';
import { setPerDocument } from '@carillon/store/bulk-set';
import { toBytes } from '@carillon/store/bytes';
import { type Clock, fromNow } from '@carillon/store/clock';
import type {
  BatchDocument,
  DeviceDocument,
  DeviceEvent,
  NotifyEntry,
  PushDocument,
  WebhookDocument,
} from '@carillon/store/documents';
import { markBatches } from '@carillon/store/final-outcomes';
import { buildReplay, mapEntries, NOTIFY_INDEX } from '@carillon/store/notify-mark';
import { outcomeCodes } from '@carillon/store/recipient-status';
import { Binary, type Collection, type Db, type Document, type Filter, Long } from 'mongodb';

/*
 * The outbox of webhooks is the documents themselves: a push, its batches and devices have one entry for each webhook
 * (documents.ts). The write that changes something to be reported to a webhook sets `at` and raises `v`. A worker
 * claims due entries, sends what differs from `reported`, and closes the entry: it goes out of the index if `v` is as
 * it was claimed.
 */

/** Maximum documents that are read to choose which are claimed. */
const MAX_CLAIMED = 500;
/**
 * Maximum recipients of the documents that a claim takes, unless it takes only one: this bounds the memory of a report.
 */
const MAX_RECIPIENTS = 2_000;
/** Interval between two checks of a replayed batch that was claimed before the replay, until it is settled. */
const RECHECK_MS = 10_000;
const KINDS = ['pushes', 'batches', 'devices'] as const;
type Kind = (typeof KINDS)[number];

const FIELDS = {
  pushes: {
    app: 1,
    state: 1,
    devices: 1,
    counts: 1,
    finishedAt: 1,
    acceptedAt: 1,
    work: 1,
    notify: 1,
  },
  batches: { app: 1, push: 1, work: 1, notify: 1 },
  devices: {
    app: 1,
    platform: 1,
    registeredAt: 1,
    deletedAt: 1,
    replaces: 1,
    notify: 1,
  },
} as const;

type ReportedPush = Pick<
  PushDocument,
  '_id' | 'app' | 'state' | 'devices' | 'counts' | 'finishedAt' | 'acceptedAt' | 'work'
>;

/** A document that a worker reports to a webhook until its lease ends. */
export type ClaimedReport = { id: string; claim: string; entry: NotifyEntry } & (
  | { kind: 'pushes'; document: ReportedPush }
  | { kind: 'batches'; document: Pick<BatchDocument, '_id' | 'app' | 'push' | 'work'> }
  | {
      kind: 'devices';
      document: Pick<
        DeviceDocument,
        '_id' | 'app' | 'platform' | 'registeredAt' | 'deletedAt' | 'replaces'
      >;
    }
);

/** Documents to read again, by their ids, each with the entry of its report. */
export type StoredEntries = Record<Kind, Map<string, NotifyEntry>>;

/** Progress of a report about a document. */
export interface ReportProgress {
  report: Pick<ClaimedReport, 'id' | 'kind' | 'claim' | 'entry' | 'document'>;
  /** Outcomes reported so far, one byte for each recipient. */
  reported?: Uint8Array;
  finished?: boolean;
  events?: readonly DeviceEvent[];
  /** Nothing that was claimed is left to report. */
  isComplete: boolean;
}

type EntryHolder = { _id: string; notify?: NotifyEntry[] };

/** A recipient whose outcome was not reported to a webhook. */
export interface UnreportedRecipient {
  position: number;
  code: number;
}

/** Lists the recipients of a claimed push or batch whose outcome was not reported to the webhook, in order. */
export function unreportedRecipients(report: ClaimedReport): UnreportedRecipient[] {
  if (report.kind === 'devices') return [];
  const { work } = report.document;
  if (work === undefined || (report.kind === 'pushes' && report.entry.r !== true)) return [];
  // The end of the push has closed the batch: the outcomes are written, and the batch is marked again, right after.
  if (work.ended !== undefined && work.final !== true) return [];
  const reported = toBytes(report.entry.reported);
  return [...outcomeCodes(work).entries()].flatMap(([position, code]) =>
    code === (reported[position] ?? 0) || recipientEventOf(code) === undefined
      ? []
      : [{ position, code }],
  );
}

/** Checks whether the end of a claimed push was not reported to the webhook. */
export function isEndUnreported(report: ClaimedReport): boolean {
  return (
    report.kind === 'pushes' &&
    report.document.counts !== undefined &&
    report.entry.finished !== true
  );
}

/** Counts the events about a push that a webhook wants and that were not reported to it. */
export function countUnreported(
  report: ClaimedReport,
  { events }: Pick<WebhookDocument, 'events'>,
): number {
  const isWanted = (event: WebhookEvent | undefined) =>
    event !== undefined && events.includes(event);
  const recipients = unreportedRecipients(report).filter(({ code }) =>
    isWanted(recipientEventOf(code)),
  );
  return recipients.length + (isEndUnreported(report) && isWanted('push.finished') ? 1 : 0);
}

/** Work that is to be reported to webhooks: claims, progress and marks. */
export function createOutbox(db: Db, clock: Clock) {
  const collections: Collections = {
    pushes: db.collection('pushes'),
    batches: db.collection('batches'),
    devices: db.collection('devices'),
  };
  return {
    ...createDueReports(collections, clock),
    ...createClaimedReports(collections),
    ...createReplay(db),
    ...createStoredReports(collections),
  };
}

type Collections = Record<Kind, Collection<EntryHolder>>;

/** Finds, counts and claims what is to be reported. */
function createDueReports(collections: Collections, clock: Clock) {
  const now = (): Date => new Date(clock.now());

  return {
    /** Returns those of these webhooks that something is due for. One indexed read for each and kind of document. */
    async filterDue(webhooks: readonly string[]): Promise<string[]> {
      const due = await Promise.all(
        webhooks.map(async (webhook) => {
          for (const kind of KINDS) {
            const found = await collections[kind].findOne(buildDueFilter(webhook, now()), {
              projection: { _id: 1 },
              hint: NOTIFY_INDEX,
            });
            if (found !== null) return [webhook];
          }
          return [];
        }),
      );
      return due.flat();
    },

    /**
     * Claims documents that are due for a webhook, the ones that wait longest first of each kind. Documents that
     * another worker holds, or that wait for a retry, are due again at that time.
     */
    async claim(webhook: string, leaseMs: number): Promise<ClaimedReport[]> {
      const claim = newClaimId();
      // Begins with any kind: a steady stream of one must not hold back the others.
      const first = Math.floor(Math.random() * KINDS.length);
      for (const kind of [...KINDS.slice(first), ...KINDS.slice(0, first)]) {
        const ids = await findDue(collections[kind], kind, webhook, now());
        if (ids.length === 0) continue;
        await collections[kind].updateMany(
          { _id: { $in: ids }, ...buildDueFilter(webhook, now()) },
          [{ $set: { notify: buildClaim(webhook, claim, leaseMs) } }],
          // The index of the due filter would read all documents that are due.
          { ...FAST_WRITE, hint: { _id: 1 } },
        );
        const claimed = await readClaimed(collections[kind], kind, { ids, webhook, claim });
        if (claimed.length > 0) return claimed;
      }
      return [];
    },

    /** Counts the documents that are to be reported to a webhook, at most `limit`. */
    async countPending(webhook: string, limit: number): Promise<number> {
      const filter = {
        notify: { $elemMatch: { w: webhook, at: { $exists: true } } },
        'notify.at': { $exists: true },
      };
      const options = { limit, hint: NOTIFY_INDEX };
      const counts = await Promise.all(
        KINDS.map((kind) => collections[kind].countDocuments(filter, options)),
      );
      const pending = counts.reduce((sum, count) => sum + count, 0);
      return Math.min(limit, pending);
    },
  };
}

/** Writes the results of reports about claimed documents. */
function createClaimedReports(collections: Collections) {
  return {
    /**
     * Records what was reported, durably, and renews the leases of what is not complete. Entries whose claim was lost
     * stay as they are.
     */
    async record(progress: readonly ReportProgress[], leaseMs: number): Promise<void> {
      await writePerKind(
        collections,
        progress,
        ({ report }) => report,
        (pick, some) => buildProgress(pick, some, leaseMs),
      );
    },

    /** Releases claimed documents: each is due after its delay, and counts a failure unless that is 0. */
    async release(
      reports: readonly { report: Pick<ClaimedReport, 'id' | 'kind' | 'claim'>; delayMs: number }[],
    ): Promise<void> {
      await writePerKind(
        collections,
        reports,
        ({ report }) => report,
        (pick, some) => {
          const dueAt = fromNow(pick(some.map(({ delayMs }) => Long.fromNumber(delayMs))));
          const failed = pick(some.map(({ delayMs }) => (delayMs > 0 ? 1 : 0)));
          return {
            notify: mapEntries(isClaimedBy(pick(some.map(({ report }) => report.claim))), {
              at: dueAt,
              until: dueAt,
              claim: '$$REMOVE',
              tries: { $add: [{ $ifNull: ['$$one.tries', 0] }, failed] },
            }),
          };
        },
      );
    },
  };
}

/** Reads documents whose events are sent once more. */
function createStoredReports(collections: Collections) {
  return {
    /** Reads documents as reports with the given entries, without a claim: nothing is recorded about them. */
    async readAgain(entries: StoredEntries): Promise<ClaimedReport[]> {
      const read = await Promise.all(
        KINDS.map(async (kind) => {
          const ids = [...entries[kind].keys()];
          if (ids.length === 0) return [];
          const options = { projection: FIELDS[kind], batchSize: ids.length + 1 };
          const found = await collections[kind].find({ _id: { $in: ids } }, options).toArray();
          return found.flatMap((document) => {
            const entry = entries[kind].get(document._id);
            return entry === undefined ? [] : [toReport(kind, { claim: '', entry, document })];
          });
        }),
      );
      return read.flat();
    },
  };
}

function createReplay(db: Db) {
  const pushes = db.collection<PushDocument>('pushes');
  const batches = db.collection<BatchDocument>('batches');
  return {
    /**
     * Reports stored pushes of an app to a webhook again, from the id `from` up to `to`, in order of id. Pushes from
     * before the webhook's creation are included. Marks at most so many pushes with so many recipients, but at least
     * one push.
     *
     * @returns how many pushes were marked, and the last of them unless all are done
     */
    async replay(
      { _id: w, app, events }: Pick<WebhookDocument, '_id' | 'app' | 'events'>,
      { from, to }: { from: string; to: string },
      limits: { pushes: number; recipients: number },
    ): Promise<{ pushes: number; last?: string }> {
      const { pushes: coversPushes, recipients } = coverageOf(events);
      if (!coversPushes) return { pushes: 0 };
      const found = await pushes
        .find(
          { app, _id: { $gt: from, $lt: to }, state: { $in: ['open', 'finished', 'deleted'] } },
          { projection: { devices: 1 }, batchSize: limits.pushes + 1 },
        )
        .sort({ _id: 1 })
        .limit(limits.pushes)
        .toArray();
      const ids = takeUpTo(limits.recipients, found);
      const isDone = found.length < limits.pushes && ids.length === found.length;
      const last = isDone ? undefined : ids.at(-1);
      if (ids.length === 0) return { pushes: 0 };
      const entry = { w, ...(recipients && { r: true as const }) };
      await pushes.updateMany({ _id: { $in: ids } }, [{ $set: buildReplay(entry) }]);
      // After the pushes: one that ends from here on marks its batches itself, one that has ended has no more changes.
      if (recipients) {
        const primary = { push: { $in: ids }, 'work.fallback': { $exists: false } };
        await markBatches(batches, primary, buildReplay({ w }).notify);
      }
      return { pushes: ids.length, ...(last !== undefined && { last }) };
    },
  };
}

/** Returns the ids of the first pushes that together have at most so many recipients, and at least one id. */
function takeUpTo(
  maxRecipients: number,
  pushes: readonly Pick<PushDocument, '_id' | 'devices'>[],
): string[] {
  let recipients = 0;
  const ids: string[] = [];
  for (const { _id, devices } of pushes) {
    recipients += devices;
    if (ids.length > 0 && recipients > maxRecipients) break;
    ids.push(_id);
  }
  return ids;
}

function buildDueFilter(webhook: string, now: Date): Filter<EntryHolder> {
  return {
    notify: { $elemMatch: { w: webhook, at: { $lte: now } } },
    // The condition of the partial index.
    'notify.at': { $exists: true },
  };
}

async function findDue(
  collection: Collection<EntryHolder>,
  kind: Kind,
  webhook: string,
  now: Date,
): Promise<string[]> {
  const found = await collection
    .find<{ _id: string; work?: { n: number } }>(buildDueFilter(webhook, now), {
      projection: { 'work.n': 1 },
      hint: NOTIFY_INDEX,
      batchSize: MAX_CLAIMED + 1,
    })
    .limit(MAX_CLAIMED)
    .toArray();
  let recipients = 0;
  const ids: string[] = [];
  for (const { _id, work } of found) {
    recipients += kind === 'devices' ? 1 : (work?.n ?? 1);
    if (ids.length > 0 && recipients > MAX_RECIPIENTS) break;
    ids.push(_id);
  }
  return ids;
}

/** Claims the entry, unless a lease or a delay has not ended: a change meanwhile has made it due too early. */
function buildClaim(webhook: string, claim: string, leaseMs: number): Document {
  const leaseEnd = fromNow(leaseMs);
  const isHeld = { $gt: ['$$one.until', '$$NOW'] };
  const unlessHeld = (value: unknown, field: string) => ({
    $cond: [isHeld, field, value],
  });
  const isDue = {
    $and: [
      { $eq: ['$$one.w', { $literal: webhook }] },
      { $eq: [{ $type: '$$one.at' }, 'date'] },
      { $lte: ['$$one.at', '$$NOW'] },
    ],
  };
  return mapEntries(isDue, {
    at: unlessHeld(leaseEnd, '$$one.until'),
    until: unlessHeld(leaseEnd, '$$one.until'),
    claim: unlessHeld({ $literal: claim }, '$$one.claim'),
  });
}

async function readClaimed(
  collection: Collection<EntryHolder>,
  kind: Kind,
  { ids, webhook, claim }: { ids: readonly string[]; webhook: string; claim: string },
): Promise<ClaimedReport[]> {
  const found = await collection
    .find(
      { _id: { $in: [...ids] }, 'notify.claim': claim },
      { projection: FIELDS[kind], batchSize: ids.length + 1 },
    )
    .toArray();
  return found.flatMap(({ notify, ...document }) => {
    const entry = notify?.find((one) => one.w === webhook && one.claim === claim);
    if (entry === undefined) return [];
    return [toReport(kind, { claim, entry, document })];
  });
}

function toReport(
  kind: Kind,
  { claim, entry, document }: { claim: string; entry: NotifyEntry; document: EntryHolder },
): ClaimedReport {
  return { id: document._id, kind, claim, entry, document } as ClaimedReport;
}

function isClaimedBy(claim: Document): Document {
  return { $eq: ['$$one.claim', claim] };
}

/**
 * Checks whether a replay has set the entry of a batch that was claimed when its report was read. That claim may be from before
 * the replay: its settlement sets no mark, and may come before the report is recorded.
 */
function isWorkedByOlderClaim({ entry, document }: ReportProgress['report']): boolean {
  if (entry.replayed !== true || !('work' in document)) return false;
  return document.work?.state === 'ready' && document.work.claim !== undefined;
}

function buildProgress(
  pick: (values: readonly unknown[]) => Document,
  progress: readonly ReportProgress[],
  leaseMs: number,
): Document {
  const isComplete = pick(progress.map((one) => one.isComplete));
  const isUnchanged = { $eq: ['$$one.v', pick(progress.map(({ report }) => report.entry.v))] };
  const leaseEnd = fromNow(leaseMs);
  const whenDone = (done: unknown, held: unknown) => ({ $cond: [isComplete, done, held] });
  const reported = pick(
    progress.map(({ reported: bytes }) => (bytes === undefined ? null : new Binary(bytes))),
  );
  const mustRecheck = pick(progress.map(({ report }) => isWorkedByOlderClaim(report)));
  const nextAt = { $cond: [mustRecheck, fromNow(RECHECK_MS), '$$REMOVE'] };
  const changed = mapEntries(isClaimedBy(pick(progress.map(({ report }) => report.claim))), {
    at: whenDone({ $cond: [isUnchanged, nextAt, '$$NOW'] }, leaseEnd),
    until: whenDone('$$REMOVE', leaseEnd),
    claim: whenDone('$$REMOVE', '$$one.claim'),
    tries: '$$REMOVE',
    reported: { $ifNull: [reported, '$$one.reported'] },
    finished: {
      $cond: [pick(progress.map((one) => one.finished === true)), true, '$$one.finished'],
    },
    ...buildLeftEvents(pick, progress),
  });
  // A device keeps no entry without an event: it may outlive many webhooks.
  const hasWork = { $ne: ['$$one.events', []] };
  return { notify: { $filter: { input: changed, as: 'one', cond: hasWork } } };
}

/** Builds the fields of the events that are left of a device. One that occurred again meanwhile has another time, and stays. */
function buildLeftEvents(
  pick: (values: readonly unknown[]) => Document,
  progress: readonly ReportProgress[],
): Document {
  const reported = pick(progress.map(({ events = [] }) => events));
  const reportedTimes = pick(
    progress.map(({ report, events = [] }) =>
      (report.entry.times ?? []).filter(({ event }) => events.includes(event)),
    ),
  );
  const leftTimes = { $setDifference: [{ $ifNull: ['$$one.times', []] }, reportedTimes] };
  const again = { $map: { input: leftTimes, as: 'time', in: '$$time.event' } };
  const left = { $setDifference: ['$$one.events', { $setDifference: [reported, again] }] };
  return {
    events: { $cond: [{ $isArray: '$$one.events' }, left, '$$REMOVE'] },
    times: { $cond: [{ $isArray: '$$one.times' }, leftTimes, '$$REMOVE'] },
  };
}

/** Changes claimed documents, with one statement for each kind. */
async function writePerKind<T>(
  collections: Record<Kind, Collection<EntryHolder>>,
  items: readonly T[],
  reportOf: (item: T) => Pick<ClaimedReport, 'id' | 'kind' | 'claim'>,
  buildFields: (pick: (values: readonly unknown[]) => Document, some: readonly T[]) => Document,
): Promise<void> {
  await Promise.all(
    KINDS.map(async (kind) => {
      const some = items.filter((item) => reportOf(item).kind === kind);
      if (some.length === 0) return;
      const ids = some.map((item) => reportOf(item).id);
      const claims = [...new Set(some.map((item) => reportOf(item).claim))];
      await collections[kind].updateMany(
        { _id: { $in: ids }, 'notify.claim': { $in: claims } },
        setPerDocument('$_id', ids, (pick) => buildFields(pick, some)),
      );
    }),
  );
}
