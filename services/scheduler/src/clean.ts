import type { SweptPush } from '@carillon/store/cleaning';

/** Items of each kind looked at in one tick. */
const AT_ONCE = 100;
/** How long pushes that may go are removed in one tick: as many go as come, however many that are. */
const PURGE_FOR_MS = 2_000;
/** Open pushes that the slow sweep looks at in one tick. */
const SWEPT_AT_ONCE = 200;

/** What cleaning needs. */
export interface CleanDeps {
  abandon(): Promise<number>;
  purge(limit: number): Promise<number>;
  recountTopics(limit: number): Promise<number>;
  forgetEmptied(limit: number): Promise<number>;
  openAfter(last: SweptPush | undefined, limit: number): Promise<SweptPush[]>;
  addFinishJobs(pushes: readonly string[]): Promise<void>;
}

/** What one tick cleaned. */
export interface Cleaned {
  abandoned: number;
  purged: number;
  recounted: number;
  emptied: number;
}

/**
 * Makes the slow work of a scheduler: gives up what was never accepted, removes what has ended, counts broken
 * topics anew, and goes round all open pushes so that an end whose job was lost is still found.
 */
export function createClean(deps: CleanDeps): () => Promise<Cleaned> {
  let last: SweptPush | undefined;

  async function sweep(): Promise<void> {
    const open = await deps.openAfter(last, SWEPT_AT_ONCE);
    last = open.length < SWEPT_AT_ONCE ? undefined : open.at(-1);
    await deps.addFinishJobs(open.map(({ id }) => id));
  }

  async function purge(): Promise<number> {
    const end = performance.now() + PURGE_FOR_MS;
    let purged = 0;
    let last = AT_ONCE;
    while (last === AT_ONCE && performance.now() < end) {
      last = await deps.purge(AT_ONCE);
      purged += last;
    }
    return purged;
  }

  return async () => {
    await sweep();
    return {
      abandoned: await deps.abandon(),
      purged: await purge(),
      recounted: await deps.recountTopics(AT_ONCE),
      emptied: await deps.forgetEmptied(AT_ONCE),
    };
  };
}
