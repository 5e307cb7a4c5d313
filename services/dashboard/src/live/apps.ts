import { type AppCounts, OTHER_APPS } from '@carillon/core/app-counts';
import { resultWithin } from '@carillon/core/with-timeout';
import { type AppFigures, sumAppMinutes, sumCounts } from '@carillon/presence/app-figures';
import type { Reports } from '@carillon/reports/reports';
import type { AppOwner } from '@carillon/store/apps';
import type { Store } from '@carillon/store/store';
import { mayUseAccount, type SessionOperator } from '../http/route.ts';
import { countMeanwhile } from './count-meanwhile.ts';

/** Number of apps in the overview. */
const SHOWN_APPS = 10;
/** While MongoDB is slow, the apps are shown with the names and pauses read before. */
const NAMES_TIMEOUT_MS = 1_000;

/** One of the apps with the most pending work, or else the most pushes. */
export interface OverviewApp {
  id: string;
  name: string;
  /** Its deliveries are held back. */
  paused: boolean;
  /** Pending batches; null while they are not counted. */
  pending: number | null;
  /** True if `pending` is a lower bound. */
  isAtLeast: boolean;
  oldestMs: number;
  /** In the last hour; `delivered` includes what providers have accepted. */
  accepted: number;
  delivered: number;
  failed: number;
}

/** The figures of the apps, and what is known of each. */
export interface AppsState {
  figures: AppFigures;
  owners: ReadonlyMap<string, AppOwner>;
  isPaused(app: string): boolean;
}

/**
 * Creates the reader of the figures by app. The names and accounts of apps never change, and are read once; the pauses
 * are those that the reader of problems has refreshed.
 */
export function createAppsReader(
  figures: { read(): Promise<AppFigures>; listActive(): Promise<string[]> },
  {
    apps,
    suspensions,
    appBacklog,
  }: Pick<Store, 'apps' | 'suspensions'> & Pick<Reports, 'appBacklog'>,
): () => Promise<AppsState> {
  const owners = new Map<string, AppOwner>();
  const countPending = countMeanwhile(async () => {
    await suspensions.refresh();
    return appBacklog.measure(figures.listActive);
  });

  async function readOwners(ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    for (const owner of await apps.findOwners(ids)) owners.set(owner._id, owner);
  }

  return async () => {
    const snapshot = await figures.read();
    const read = { ...snapshot, backlog: snapshot.backlog ?? (await countPending()) };
    const unknown = listApps(read).filter((app) => !owners.has(app));
    await resultWithin(
      readOwners(unknown).catch(() => undefined),
      NAMES_TIMEOUT_MS,
      undefined,
    );
    return { figures: read, owners, isPaused: suspensions.isPaused };
  };
}

function listApps({ backlog = [], minutes }: AppFigures): string[] {
  const ids = new Set(backlog.map(({ app }) => app));
  for (const { apps } of minutes) for (const app of apps.keys()) ids.add(app);
  // What too many apps share is nobody's.
  ids.delete(OTHER_APPS);
  return [...ids];
}

/** An app with its account, which is undefined while MongoDB does not respond. */
interface RankedApp {
  account: string | undefined;
  app: OverviewApp;
}

const rankingOf = new WeakMap<AppFigures, RankedApp[]>();

/** Ranks all apps by their pending work, then by their accepted pushes, once for all viewers. */
function rankOnce({ figures, owners, isPaused }: AppsState): RankedApp[] {
  const known = rankingOf.get(figures);
  if (known !== undefined) return known;
  const sums = sumAppMinutes(figures.minutes);
  const isCounted = figures.backlog !== undefined;
  const backlogs = new Map(figures.backlog?.map((backlog) => [backlog.app, backlog]));
  const ranking = listApps(figures).map((id) => {
    const { accepted = 0, delivered = 0, sent = 0, failed = 0 } = sums.get(id) ?? {};
    const {
      pending = isCounted ? 0 : null,
      isAtLeast = false,
      oldestMs = 0,
    } = backlogs.get(id) ?? {};
    const owner = owners.get(id);
    const app = {
      ...{ id, name: owner?.name ?? id, paused: isPaused(id) },
      ...{ pending, isAtLeast, oldestMs, accepted, delivered: delivered + sent, failed },
    };
    return { account: owner?.account, app };
  });
  ranking.sort(
    ({ app: one }, { app: other }) =>
      (other.pending ?? 0) - (one.pending ?? 0) ||
      other.accepted - one.accepted ||
      (one.id < other.id ? -1 : 1),
  );
  rankingOf.set(figures, ranking);
  return ranking;
}

/** Lists the apps with the most pending work, then the most accepted pushes, of those that an operator may see. */
export function listTopApps(state: AppsState, operator: SessionOperator): OverviewApp[] {
  const mayUse = ({ account }: RankedApp) =>
    account === undefined ? operator.accounts === 'all' : mayUseAccount(operator, account);
  return rankOnce(state)
    .filter(mayUse)
    .slice(0, SHOWN_APPS)
    .map(({ app }) => app);
}

/** Counts of one account by the time of the minute. */
type MinuteSums = Map<number, AppCounts>;

const accountsOf = new WeakMap<AppFigures, Map<string, MinuteSums>>();

/** Adds up the minutes by account, once for all viewers. */
function sumByAccount({ figures, owners }: AppsState): Map<string, MinuteSums> {
  const known = accountsOf.get(figures);
  if (known !== undefined) return known;
  const sums = new Map<string, MinuteSums>();
  for (const { at, apps } of figures.minutes)
    for (const [app, counts] of apps) {
      const account = owners.get(app)?.account;
      if (account === undefined) continue;
      const ofAccount = sums.get(account) ?? new Map<number, AppCounts>();
      sums.set(account, ofAccount.set(at, sumCounts(ofAccount.get(at), counts)));
    }
  accountsOf.set(figures, sums);
  return sums;
}

/** Returns the counts of some accounts in the minute that begins at a time. */
export function sumAccounts(
  state: AppsState,
  accounts: readonly string[],
): (at: number) => AppCounts {
  const sums = sumByAccount(state);
  const own = accounts.flatMap((account) => sums.get(account) ?? []);
  return (at) =>
    own.reduce<AppCounts>((sum, ofAccount) => sumCounts(sum, ofAccount.get(at) ?? {}), {});
}
