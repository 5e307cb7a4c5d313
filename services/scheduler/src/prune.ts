import type { Producers } from '@carillon/queue/producers';
import type { PruningApp } from '@carillon/store/apps';
import type { IdleCursor } from '@carillon/store/idle-devices';
import { type PruneResources, prunePage } from '@carillon/store/prune-devices';
import type { Store } from '@carillon/store/store';

/** Maximum apps that are read in one tick. */
const APPS_PER_TICK = 100;
/** Time in one tick for the pages of these apps; the next tick continues with the next app. */
const TICK_BUDGET_MS = 2_000;
/** Time from the end of a pass through an app's idle devices to the next one. */
const PASS_INTERVAL_MS = 3_600_000;
/** Delay of an app's next page after a failed one. */
const RETRY_DELAY_MS = 30_000;
const DAY_MS = 86_400_000;

/** A pass through the idle devices of an app. */
interface Pass {
  /** Position of the next page; undefined: the first one. */
  after?: IdleCursor | undefined;
  /** Time of the next page; monotonic milliseconds. */
  dueAt: number;
}

/** Counts of the pages of one app in one tick. */
export interface PrunedApp {
  app: string;
  deleted: number;
  connected: number;
}

/**
 * Creates the tick that prunes the devices of the apps with `pruneAfterDays`: a page of one app after the other, so that a large one
 * holds up no other. The positions are kept in memory: a process that takes over begins
 * again.
 *
 * @param areOnline throws if Redis fails: then nothing is pruned
 * @param report called with the counts of an app of which devices were deleted
 * @returns a function that returns the number of deleted devices
 */
export function createPrune(
  store: Pick<Store, 'apps'> & PruneResources['store'],
  producers: Pick<Producers, 'checkCompletion'>,
  areOnline: (tokens: readonly string[]) => Promise<boolean[]>,
  report: (pruned: PrunedApp) => void,
): () => Promise<{ pruned: number }> {
  const { checkCompletion } = producers;
  const passes = new Map<string, Pass>();
  let lastApp = '';
  let failure: unknown;

  async function pruneApp({ _id, acceptancesSince }: PruningApp) {
    if (acceptancesSince === undefined) await store.apps.markAcceptancesRecorded(_id);
    const pass = passes.get(_id) ?? { dueAt: 0 };
    if (pass.dueAt > performance.now()) return 0;
    // Read for each page: an operator who turns it off, or pauses the app, stops a tick that runs.
    const app = await store.apps.find(_id);
    const pruneAfterDays = app?.pruneAfterDays;
    if (app === undefined || pruneAfterDays === undefined) {
      passes.set(_id, { dueAt: performance.now() + PASS_INTERVAL_MS });
      return 0;
    }
    const before = new Date(store.clock.now() - pruneAfterDays * DAY_MS);
    const page = await prunePage(
      { store, areOnline, checkCompletion },
      { app, before, after: pass.after },
    );
    const { deleted, connected, next } = page;
    const isEnd = next === undefined;
    passes.set(_id, { after: next, dueAt: isEnd ? performance.now() + PASS_INTERVAL_MS : 0 });
    if (deleted > 0) report({ app: _id, deleted, connected });
    return deleted;
  }

  /** Prunes a page of an app. After an error, which is kept for the end of the tick, the app waits. */
  async function tryPruneApp(app: PruningApp): Promise<number> {
    try {
      return await pruneApp(app);
    } catch (error) {
      failure ??= error;
      const pass = passes.get(app._id);
      passes.set(app._id, { ...pass, dueAt: performance.now() + RETRY_DELAY_MS });
      return 0;
    }
  }

  return async () => {
    const deadline = performance.now() + TICK_BUDGET_MS;
    const isDue = ({ _id }: PruningApp) => (passes.get(_id)?.dueAt ?? 0) <= performance.now();
    failure = undefined;
    const apps = await store.apps.listPruning(lastApp, APPS_PER_TICK);
    const firstApp = lastApp;
    lastApp = apps.length < APPS_PER_TICK ? '' : (apps.at(-1)?._id ?? '');
    let pruned = 0;
    // Each app of the tick has its page before one has another.
    rounds: for (let due = apps; due.length > 0; due = due.filter(isDue)) {
      for (const [index, app] of due.entries()) {
        if (performance.now() >= deadline) {
          if (due === apps) lastApp = apps[index - 1]?._id ?? firstApp;
          break rounds;
        }
        pruned += await tryPruneApp(app);
      }
    }
    if (failure !== undefined) throw failure;
    return { pruned };
  };
}
