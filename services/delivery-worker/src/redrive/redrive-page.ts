import { ApiError } from '@carillon/core/api-error';
import type { RedriveJob } from '@carillon/queue/jobs';
import type { Producers } from '@carillon/queue/producers';
import type { RedriveDocument } from '@carillon/store/documents';
import { isOutage } from '@carillon/store/mongo-errors';
import type { Store } from '@carillon/store/store';
import pMap from 'p-map';
import {
  type RedriveResources,
  type RedriveResult,
  ReservedMeanwhileError,
  redrivePush,
} from './redrive-push.ts';

/** Maximum old pushes between two writes of the cursor. Few, so that re-drives take turns and a process stops soon. */
const PUSHES_PER_PAGE = 50;
/** Maximum old pushes that are worked on at once. */
const PUSHES_AT_ONCE = 8;
/** Maximum age of a re-drive: the idempotency keys of its first new pushes are remembered for a day. */
const MAX_AGE_MS = 23 * 3_600_000;

/** What a page of a re-drive needs. */
export interface PageResources extends RedriveResources {
  store: RedriveResources['store'] & Pick<Store, 'redrives'>;
  producers: Pick<Producers, 'redrive'>;
  /** Tells that the process stops: the rest of the page is left to another one. */
  isStopping(): boolean;
  /** Is called with the error for which a push is skipped. */
  onError(error: unknown): void;
}

/**
 * Sends a page of a re-drive's old pushes again, and adds the job of the page after it, behind those that wait. A job
 * whose page is done does nothing: the reconciler may add it while the cursor moves. Several workers may be on one page:
 * each new push is accepted once, and one of them moves the cursor. A page that ends early, because the account's limit
 * of requests is reached or the process stops, is begun again by the reconciler.
 *
 * @throws the error for which the page must be tried again
 */
export async function redrivePage(
  resources: PageResources,
  { redrive: id, cursor }: RedriveJob,
): Promise<void> {
  const { store, producers } = resources;
  const redrive = await store.redrives.find(id);
  if (redrive?.state !== 'running' || redrive.cursor !== cursor) return;
  if (redrive.total === undefined) await countPushes(resources, redrive);
  const ageMs = store.clock.now() - redrive.createdAt.getTime();
  const page = await readPage(store, redrive);
  const last = page.at(-1);
  if (last === undefined || ageMs > MAX_AGE_MS) {
    await store.redrives.end(redrive, last === undefined ? 'finished' : 'stopped');
    return;
  }
  const results = await redriveAll(resources, redrive, page).catch(ignoreLimit);
  if (results === undefined) return;
  await store.redrives.recordProgress(redrive, { cursor: last, ...sumResults(results) });
  await producers.redrive({ _id: id, cursor: last });
}

/**
 * Works on the pushes of a page. When one of them must be tried again, those in progress are awaited, and no further one
 * begins.
 *
 * @returns undefined when the process stops before the end
 */
async function redriveAll(
  { isStopping, onError, ...resources }: PageResources,
  redrive: RedriveDocument,
  page: readonly string[],
): Promise<RedriveResult[] | undefined> {
  const failures: unknown[] = [];
  async function redriveOne(push: string): Promise<RedriveResult | undefined> {
    if (failures.length > 0 || isStopping()) return undefined;
    try {
      return await redrivePush(resources, redrive, push);
    } catch (error) {
      if (shouldRetry(error)) {
        failures.push(error);
        return undefined;
      }
      onError(error);
      return { skipped: 'error' };
    }
  }
  const results = await pMap(page, redriveOne, { concurrency: PUSHES_AT_ONCE });
  if (failures.length > 0) throw failures[0];
  const done = results.filter((result) => result !== undefined);
  return done.length === page.length ? done : undefined;
}

/** Distinguishes a temporary failure from one of a single push, which must not delay the others. */
function shouldRetry(error: unknown): boolean {
  return error instanceof ApiError || error instanceof ReservedMeanwhileError || isOutage(error);
}

/** Ends a page whose account has reached its limit of requests. @throws another error */
function ignoreLimit(error: unknown): undefined {
  if (!(error instanceof ApiError) || error.code !== 'RATE_LIMIT_EXCEEDED') throw error;
}

async function countPushes(
  { store, isStopping }: PageResources,
  redrive: RedriveDocument,
): Promise<void> {
  let total = 0;
  for await (const _ of listPushes(store, redrive)) {
    total += 1;
    if (isStopping()) return;
  }
  await store.redrives.setTotal(redrive, total);
}

async function readPage(
  store: Pick<Store, 'failedRecipients'>,
  redrive: RedriveDocument,
): Promise<string[]> {
  const page: string[] = [];
  for await (const push of listPushes(store, redrive, redrive.cursor))
    if (page.push(push) === PUSHES_PER_PAGE) break;
  return page;
}

/** Lists the old pushes after a cursor, in order. */
async function* listPushes(
  { failedRecipients }: Pick<Store, 'failedRecipients'>,
  { app, filter, to, pushes }: RedriveDocument,
  cursor = '',
): AsyncGenerator<string> {
  if (pushes === undefined) yield* failedRecipients.iteratePushes(app, { ...filter, to }, cursor);
  else yield* pushes.filter((push) => push > cursor);
}

function sumResults(results: readonly RedriveResult[]) {
  const skipped: Record<string, number> = {};
  let done = 0;
  let recipients = 0;
  for (const result of results) {
    if ('skipped' in result) skipped[result.skipped] = (skipped[result.skipped] ?? 0) + 1;
    else {
      done += 1;
      recipients += result.recipients;
    }
  }
  return { done, recipients, skipped };
}
