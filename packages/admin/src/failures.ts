import type { Channel } from '@carillon/core/channels';
import type { Failure } from '@carillon/core/outcomes';
import type { FailedBatch, FailureCursor } from '@carillon/reports/failures';
import type { Reports } from '@carillon/reports/reports';
import type { Page, PageQuery } from './page.ts';

/** A query for failed deliveries; `from` and `to` are times at which recipients of a batch first failed. */
export interface FailureListQuery extends PageQuery {
  channel?: Channel | undefined;
  reason?: Failure | undefined;
  from?: Date | undefined;
  to?: Date | undefined;
}

/** Failed recipients of one push on one channel; `reasons` has the provider's error where it returned one. */
export interface FailureView {
  push: string;
  channel: Channel;
  /** Milliseconds since 1970. */
  failedAt: number;
  failed: number;
  /** Those of them that a re-drive has sent to again. */
  redriven: number;
  reasons: { reason?: Failure; text: string; count: number }[];
}

/** Position in a list of failures, as `next` has it. */
export const FAILURE_CURSOR = /^(\d{1,15})\.([0-9a-z-]{1,64})$/;

/**
 * Lists failed deliveries of an app, the newest first. Batches of one push that follow each other are one item, so a
 * push with many batches may also be on several pages. A page reads at most 10,000 index entries: it may be short, or
 * empty, and still have a `next`. An unreadable cursor counts as none.
 */
export async function listFailures(
  { failures }: Pick<Reports, 'failures'>,
  app: string,
  { cursor, ...query }: FailureListQuery,
): Promise<Page<FailureView>> {
  const { batches, next } = await failures.list({ app, ...query, cursor: parseCursor(cursor) });
  const items: FailureView[] = [];
  for (const batch of batches) {
    const last = items.at(-1);
    const item = toFailureView(batch);
    if (last?.push === item.push && last.channel === item.channel) mergeInto(last, item);
    else items.push(item);
  }
  return {
    items,
    ...(next !== undefined && { next: `${next.failedAt.getTime()}.${next.id}` }),
  };
}

function parseCursor(text: string | undefined): FailureCursor | undefined {
  const [, ms, id] = FAILURE_CURSOR.exec(text ?? '') ?? [];
  return ms === undefined || id === undefined ? undefined : { failedAt: new Date(Number(ms)), id };
}

function toFailureView(batch: FailedBatch): FailureView {
  const { push, channel, failedAt, failed, redriven, reasons } = batch;
  return {
    ...{ push, channel, failedAt: failedAt.getTime(), failed, redriven },
    reasons: reasons.map(({ reason, text, count }) => {
      return { ...(reason && { reason }), text: text ?? reason ?? 'unknown', count };
    }),
  };
}

function mergeInto(total: FailureView, added: FailureView): void {
  total.failed += added.failed;
  total.redriven += added.redriven;
  for (const { reason, text, count } of added.reasons) {
    const known = total.reasons.find((one) => one.reason === reason && one.text === text);
    if (known === undefined) total.reasons.push({ ...(reason && { reason }), text, count });
    else known.count += count;
  }
  total.reasons.sort((a, b) => b.count - a.count);
}
