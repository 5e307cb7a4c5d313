import type { SweptPush } from '@carillon/store/cleaning';

/** Items of each kind looked at in one tick. */
const AT_ONCE = 100;
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

  return async () => {
    await sweep();
    return {
      abandoned: await deps.abandon(),
      purged: await deps.purge(AT_ONCE),
      recounted: await deps.recountTopics(AT_ONCE),
      emptied: await deps.forgetEmptied(AT_ONCE),
    };
  };
}
