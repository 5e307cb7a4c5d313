import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { ApiError } from '@carillon/core/api-error';
import type { RedriveDocument } from '@carillon/store/documents';
import { isOutage } from '@carillon/store/mongo-errors';
import type { Store } from '@carillon/store/store';
import pMap from 'p-map';
import {
  type Accept,
  LeaseLostError,
  type RedriveResult,
  type RedriveStore,
  redrivePush,
} from './redrive-push.ts';

/** Old pushes between two writes of the cursor: a killed process repeats at most these, to no effect. */
const PUSHES_PER_PAGE = 200;
const PUSHES_AT_ONCE = 16;
const LEASE_MS = 10_000;
const RENEWALS_PER_LEASE = 3;
/** Wait for a re-drive whose lease another process holds. */
const WAIT_MS = 2_000;
/** The limit is one of a minute. */
const MAX_LIMIT_WAIT_MS = 60_000;
/** Least time between two checks that a viewer causes. */
const VIEWER_INTERVAL_MS = 10_000;
/** The idempotency keys of the first new pushes are remembered for a day, so a re-drive must end before. */
const MAX_AGE_MS = 23 * 3_600_000;

/** A process's part in the re-drives of the installation. */
export type RedriveWorker = ReturnType<typeof createRedriveWorker>;

/**
 * Creates the worker of re-drives. It checks for a running re-drive when it is woken: at the start of the process,
 * after a re-drive was created, when an operator opens one, and every 10 s while the process has a viewer. While one is
 * running, also under another process's lease, it repeats the check, and takes the re-drive over when the lease ends;
 * otherwise it sends no query.
 *
 * @param onError called with errors after which the work is tried again, and with those for which a push is skipped
 */
export function createRedriveWorker({
  store,
  accept,
  onError,
  leaseMs = LEASE_MS,
}: {
  store: RedriveStore & Pick<Store, 'redrives' | 'failures'>;
  accept: Accept;
  onError: (error: unknown) => void;
  leaseMs?: number;
}) {
  const owner = randomUUID();
  const stopping = new AbortController();
  let running: Promise<void> | undefined;
  let isWoken = false;
  let wokenAt = Number.NEGATIVE_INFINITY;

  async function run(): Promise<void> {
    while (isWoken && !stopping.signal.aborted) {
      isWoken = false;
      await workOnAll().catch(async (error: unknown) => {
        onError(error);
        isWoken = true;
        await pause(WAIT_MS);
      });
    }
    running = undefined;
  }

  /** Works on re-drives until none is running. */
  async function workOnAll(): Promise<void> {
    while (!stopping.signal.aborted) {
      const redrive = await store.redrives.claim(owner, leaseMs);
      if (redrive !== undefined) await work(redrive);
      else if (await store.redrives.hasRunning()) await pause(Math.min(WAIT_MS, leaseMs));
      else return;
    }
  }

  async function work(redrive: RedriveDocument): Promise<void> {
    const lost = new AbortController();
    const renew = () =>
      store.redrives.renew(redrive._id, owner, leaseMs).then((isRenewed) => {
        if (!isRenewed) lost.abort();
      });
    // A failed renewal is repeated by the next one; every write of progress checks the lease.
    const timer = setInterval(
      () => void renew().catch(() => undefined),
      leaseMs / RENEWALS_PER_LEASE,
    );
    try {
      const signal = AbortSignal.any([lost.signal, stopping.signal]);
      await workOn({ store, accept, onError }, redrive, owner, signal);
    } catch (error) {
      const waitMs = readLimitWait(error);
      if (waitMs === undefined && !(error instanceof LeaseLostError)) throw error;
      clearInterval(timer);
      // Until then it keeps its lease and no process works on it, so that those of other accounts continue.
      if (waitMs !== undefined) await store.redrives.renew(redrive._id, owner, waitMs);
    } finally {
      clearInterval(timer);
    }
  }

  const pause = (ms: number) =>
    sleep(ms, undefined, { signal: stopping.signal }).catch(() => undefined);

  /** Checks for a running re-drive now. Never throws. */
  function wake(): void {
    isWoken = true;
    wokenAt = performance.now();
    running ??= run();
  }

  return {
    wake,
    /** Checks for a running re-drive that another process may have left, at most every 10 s. Never throws. */
    noticeViewer(): void {
      if (performance.now() - wokenAt >= VIEWER_INTERVAL_MS) wake();
    },
    /** Stops after the pushes in progress; another process, or this one's successor, continues after the lease. */
    async stop(): Promise<void> {
      stopping.abort();
      await running;
    },
  };
}

/** Returns how long a re-drive waits because its account's limit of requests is reached; undefined: another error. */
function readLimitWait(error: unknown): number | undefined {
  if (!(error instanceof ApiError) || error.code !== 'RATE_LIMIT_EXCEEDED') return undefined;
  return Math.min((error.retryAfterSeconds ?? 1) * 1_000, MAX_LIMIT_WAIT_MS);
}

/** Works on one re-drive until it ends or the signal stops it. @throws LeaseLostError */
async function workOn(
  { store, accept, onError }: Parameters<typeof createRedriveWorker>[0],
  redrive: RedriveDocument,
  owner: string,
  signal: AbortSignal,
): Promise<void> {
  const { _id, total, createdAt } = redrive;
  if (total === undefined) await countPushes(store, redrive, owner, signal);
  for await (const page of readPages(store, redrive)) {
    if (signal.aborted) return;
    if (store.clock.now() - createdAt.getTime() > MAX_AGE_MS) {
      await store.redrives.end(_id, owner, 'stopped');
      return;
    }
    const results = await pMap(
      page,
      (push) =>
        redrivePush(store, accept, redrive, push).catch((error: unknown): RedriveResult => {
          if (shouldRetry(error)) throw error;
          onError(error);
          return { skipped: 'error' };
        }),
      { concurrency: PUSHES_AT_ONCE },
    );
    const progress = { cursor: page.at(-1) ?? '', ...sumResults(results) };
    if (!(await store.redrives.recordProgress(_id, owner, progress))) throw new LeaseLostError();
  }
  if (!signal.aborted) await store.redrives.end(_id, owner, 'finished');
}

/** Distinguishes a temporary failure from one of a single push, which must not delay the others. */
function shouldRetry(error: unknown): boolean {
  return error instanceof ApiError || error instanceof LeaseLostError || isOutage(error);
}

async function countPushes(
  { redrives, failures }: Pick<Store, 'redrives' | 'failures'>,
  redrive: RedriveDocument,
  owner: string,
  signal: AbortSignal,
): Promise<void> {
  let total = redrive.pushes?.length ?? 0;
  if (redrive.pushes === undefined) {
    const { app, filter, to } = redrive;
    for await (const _ of failures.iteratePushes(app, { ...filter, to })) {
      total += 1;
      if (signal.aborted) return;
    }
  }
  if (!(await redrives.setTotal(redrive._id, owner, total))) throw new LeaseLostError();
}

/** Reads the old pushes after the cursor, a page at a time. Each page is a query of its own: a page may take minutes. */
async function* readPages(
  { failures }: Pick<Store, 'failures'>,
  { app, filter, to, pushes, cursor = '' }: RedriveDocument,
): AsyncGenerator<string[]> {
  let after = cursor;
  for (;;) {
    const page: string[] = [];
    const source =
      pushes?.filter((push) => push > after) ??
      failures.iteratePushes(app, { ...filter, to }, after);
    for await (const push of source) if (page.push(push) === PUSHES_PER_PAGE) break;
    const last = page.at(-1);
    if (last === undefined) return;
    yield page;
    after = last;
  }
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
