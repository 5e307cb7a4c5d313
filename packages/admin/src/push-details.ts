import type { Channel } from '@carillon/core/channels';
import { isPushId } from '@carillon/core/ids';
import type { OutcomeCounts, ReportedOutcome } from '@carillon/core/outcomes';
import type { PushQuery } from '@carillon/reports/push-search';
import type { ProviderErrorCount, PushSummary } from '@carillon/reports/push-summaries';
import {
  FIRST_RECIPIENT,
  formatRecipientCursor,
  parseRecipientCursor,
  type ReportedRecipient,
} from '@carillon/reports/recipients';
import type { Reports } from '@carillon/reports/reports';
import type { PushDocument, RecipientProviderError } from '@carillon/store/documents';
import type { ListedPush } from '@carillon/store/pushes';
import type { Store } from '@carillon/store/store';
import { AdminError } from './admin-error.ts';
import type { Page, PageQuery } from './page.ts';

const MAX_SAMPLED_RECIPIENTS = 20;

/** Push without its payload; times are milliseconds since 1970. `app` is absent in lists of one app. */
export type PushHead = ReturnType<typeof toPushHead>;

/** An event of a push. The receipts are the first and the last of those whose time is stored. */
export interface TimelineEvent {
  at: number;
  what:
    | 'accepted'
    | 'due'
    | 'first-receipt'
    | 'last-receipt'
    | 'first-failure'
    | 'first-batch-settled'
    | 'last-batch-settled'
    | 'finished'
    | 'expires';
}

/** All that operators see of a push besides its payload. */
export interface PushDetails {
  push: PushHead;
  timeline: TimelineEvent[];
  batches: { total: number; open: number };
  counts: OutcomeCounts;
  byChannel: Partial<Record<Channel, OutcomeCounts>>;
  providerErrors: { texts: ProviderErrorCount[]; recipients: RecipientProviderError[] };
  /** The old push that this one re-drives. */
  redriveOf?: string;
  /** New pushes to recipients of this one that failed, as far as they are still stored. */
  redrivenAs: string[];
}

/** Push in a list. One that has not ended has its progress: `batches` instead of `counts` if these are too many. */
export interface PushItem extends PushHead {
  /** First text of the payload that devices show; absent if there is none, or the reader may not see payloads. */
  title?: string;
  batches?: PushDetails['batches'];
}

/**
 * Searches an app's pushes, the newest first; see the store's `pushSearch` for what a page covers.
 *
 * @param hasTitles true if the reader may see payloads
 */
export async function searchPushes(
  { pushSearch, pushProgress, pushTitles }: Pick<Reports, SearchReports>,
  query: PushQuery,
  hasTitles: boolean,
): Promise<Page<PushItem>> {
  const { pushes, next } = await pushSearch.search(query);
  const open = pushes.filter(({ state }) => state === 'open').map(({ _id }) => _id);
  const [progress, titles] = await Promise.all([
    pushProgress.readProgress(open),
    hasTitles ? pushTitles.read(pushes.map(({ _id }) => _id)) : new Map<string, string>(),
  ]);
  const items = pushes.map((push): PushItem => {
    const title = titles.get(push._id);
    return {
      ...toPushHead(push),
      ...progress.get(push._id),
      ...(title !== undefined && { title }),
    };
  });
  return { items, ...(next !== undefined && { next }) };
}

type SearchReports = 'pushSearch' | 'pushProgress' | 'pushTitles';

/**
 * Lists the recipients of a push in the order in which they are stored. A page with an `outcome` may be shorter than
 * `limit`, or empty, and still have a `next`. An unreadable cursor counts as none.
 *
 * @throws AdminError PUSH_NOT_FOUND
 */
export async function listRecipients(
  store: Pick<Store, 'pushes'> & Pick<Reports, 'recipients'>,
  id: string,
  { cursor, limit, outcome }: PageQuery & { outcome?: ReportedOutcome | undefined },
): Promise<Page<ReportedRecipient>> {
  const from = parseRecipientCursor(cursor) ?? FIRST_RECIPIENT;
  const push = await requirePush(store, id);
  const { recipients: items, next } = await store.recipients.readPage(push, from, limit, outcome);
  return { items, ...(next !== undefined && { next: formatRecipientCursor(next) }) };
}

/**
 * Returns the state, time line and outcomes of a push.
 *
 * @throws AdminError PUSH_NOT_FOUND
 */
export async function getPushDetails(
  store: Pick<Store, 'pushes'> & Pick<Reports, 'pushSummaries' | 'deliveryStatus'>,
  id: string,
): Promise<PushDetails> {
  const push = await requirePush(store, id);
  const [summary, recipients] = await Promise.all([
    store.pushSummaries.summarize(push),
    store.pushSummaries.sampleProviderErrors(push, MAX_SAMPLED_RECIPIENTS),
  ]);
  const { batches: total, openBatches: open, byChannel, providerErrors: texts } = summary;
  const [, , redriveOf] =
    push.idempotency?.key.match(/^redrive:([0-9a-f]{24}):([0-9a-f]{24}):/) ?? [];
  return {
    push: toPushHead(push),
    timeline: buildTimeline(push, summary),
    batches: { total, open },
    counts: await countOutcomes(store, push, summary),
    byChannel,
    providerErrors: { texts, recipients },
    ...(redriveOf !== undefined && { redriveOf }),
    redrivenAs: await store.pushSummaries.findRedriven(push),
  };
}

/**
 * Returns the payload of a push as JSON text, and its options.
 *
 * @throws AdminError PUSH_NOT_FOUND
 */
export async function getPushPayload(store: Pick<Store, 'pushes'>, id: string) {
  const { data, options = {} } = await requirePush(store, id);
  return { data, options };
}

/**
 * Finds a push of any app: callers check the account.
 *
 * @throws AdminError PUSH_NOT_FOUND
 */
export async function requirePush(
  { pushes }: Pick<Store, 'pushes'>,
  id: string,
): Promise<PushDocument> {
  const push = isPushId(id) ? await pushes.inspect(id) : undefined;
  if (push === undefined) throw new AdminError('PUSH_NOT_FOUND', `There is no push ${id}.`);
  return push;
}

/** Only a newer push of its collapse key ends a recipient in another document than the batch. */
async function countOutcomes(
  { deliveryStatus }: Pick<Reports, 'deliveryStatus'>,
  push: PushDocument,
  summary: PushSummary,
): Promise<OutcomeCounts> {
  if (push.counts !== undefined) return push.counts;
  if (push.collapse === undefined || summary.counts.inbox === undefined) return summary.counts;
  return (await deliveryStatus.statusOfPush(push._id))?.outcomes ?? summary.counts;
}

function toPushHead(push: ListedPush & { app?: string }) {
  const { _id, app, by, state, acceptedAt, dueAt, expiresAt, devices, topics, counts } = push;
  return {
    id: _id,
    ...(app !== undefined && { app }),
    state,
    acceptedAt: acceptedAt.getTime(),
    ...(dueAt !== undefined && { dueAt: dueAt.getTime() }),
    expiresAt: expiresAt.getTime(),
    devices,
    ...(topics !== undefined && { topics }),
    ...(by !== undefined && { by }),
    ...(counts !== undefined && { counts }),
  };
}

function buildTimeline(push: PushDocument, summary: PushSummary): TimelineEvent[] {
  const { acceptedAt, dueAt, expiresAt, finishedAt } = push;
  const startedAt = (dueAt ?? acceptedAt).getTime();
  const receiptAt = (ms: number) => (ms === 0 ? undefined : new Date(startedAt + ms));
  const isSettled = summary.openBatches === 0 && push.fan.done;
  const times: Record<TimelineEvent['what'], Date | undefined> = {
    accepted: acceptedAt,
    due: dueAt,
    'first-receipt': receiptAt(summary.fastestReceiptMs),
    'first-failure': summary.firstFailedAt,
    'first-batch-settled': summary.batches > 1 ? summary.firstSettledAt : undefined,
    'last-receipt': receiptAt(summary.slowestReceiptMs),
    'last-batch-settled': isSettled ? summary.lastSettledAt : undefined,
    finished: finishedAt,
    expires: expiresAt,
  };
  const events = Object.entries(times) as [TimelineEvent['what'], Date | undefined][];
  return events
    .flatMap(([what, at]) => (at === undefined ? [] : [{ at: at.getTime(), what }]))
    .sort((a, b) => a.at - b.at);
}
