import type { CredentialDocument } from '@carillon/store/documents';
import type { Address } from './provider.ts';
import { type OpenRoute, openRoute, type Route, type RouteDeps } from './route.ts';
import { createSemaphore, type Semaphore } from './semaphore.ts';

/** How long a change of a credential may stay unnoticed. */
const FRESH_MS = 3_000;
const SWEEP_EVERY_MS = 60_000;
const IDLE_MS = 600_000;
/** Large units of work of one app that are worked at once; more would only hold memory. */
const LARGE_AT_ONCE = 2;
/** Units of work of one app held by this process. */
const HELD_AT_ONCE = 200;

/** An app's ways out over one channel, held until released. */
export interface Ways {
  /** Undefined: none of the app's credentials is for this address. */
  routeFor(address: Address): Route | undefined;
  /** False: the app has lost its last credential for the channel since. */
  areConfigured(): boolean;
  /** Reads the app's credentials again. */
  refresh(): Promise<void>;
  /** So much work of this app is held already that more would keep other apps from being served. */
  isCrowded(): boolean;
  /** A place to work a large unit of work. */
  large: Semaphore;
  release(): void;
}

/** What routes need. */
export interface RoutesDeps extends RouteDeps {
  load(app: string): Promise<CredentialDocument[]>;
}

/** The ways out of all apps over one channel. */
export interface Routes {
  /** Undefined when the app has no credential for the channel. */
  of(app: string): Promise<Ways | undefined>;
  /** Ends all clients; whoever still holds one finishes what is under way. */
  close(): Promise<void>;
}

interface AppEntry {
  readAt: number;
  usedAt: number;
  held: number;
  reading: Promise<void> | undefined;
  kept: OpenRoute[];
  /** Replaced ones, closed when nobody holds the app's ways. */
  old: OpenRoute[];
  large: Semaphore;
}

/**
 * Keeps a client for each credential in use. A credential is read again every few seconds: a changed one gets a
 * new client with fresh circuits, and the one before is closed when the last that uses it is done.
 */
export function createRoutes(deps: RoutesDeps): Routes {
  const apps = new Map<string, AppEntry>();
  const timer = setInterval(sweep, SWEEP_EVERY_MS);
  timer.unref();

  function entryOf(app: string): AppEntry {
    const found = apps.get(app);
    if (found !== undefined) return found;
    const entry = createEntry();
    apps.set(app, entry);
    return entry;
  }

  /** Never joins a reading that began before: it may have looked before the owner changed something. */
  async function read(app: string, entry: AppEntry): Promise<void> {
    await entry.reading?.catch(() => undefined);
    entry.reading ??= readNow(app, entry).finally(() => {
      entry.reading = undefined;
    });
    await entry.reading;
  }

  async function readNow(app: string, entry: AppEntry): Promise<void> {
    const documents = await deps.load(app);
    const kept = documents.map(
      (document) =>
        entry.kept.find((one) => one.document.revision === document.revision) ??
        openRoute(deps, document),
    );
    entry.old.push(...entry.kept.filter((one) => !kept.includes(one)));
    entry.kept = kept;
    entry.readAt = performance.now();
    closeOld(entry);
  }

  function closeOld(entry: AppEntry): void {
    if (entry.held > 0) return;
    for (const one of entry.old.splice(0)) one.close().catch(deps.onError);
  }

  function sweep(): void {
    for (const [app, entry] of apps) {
      if (entry.held > 0 || performance.now() - entry.usedAt < IDLE_MS) continue;
      apps.delete(app);
      for (const one of entry.kept) one.close().catch(deps.onError);
    }
  }

  return {
    async of(app) {
      const entry = entryOf(app);
      entry.held += 1;
      const release = () => {
        entry.held -= 1;
        entry.usedAt = performance.now();
        closeOld(entry);
      };
      try {
        if (isStale(entry)) await read(app, entry);
      } catch (error) {
        release();
        throw error;
      }
      if (entry.kept.length === 0) {
        release();
        return undefined;
      }
      return {
        routeFor: (address) => pick(entry.kept, address),
        areConfigured: () => entry.kept.length > 0,
        refresh: () => read(app, entry),
        isCrowded: () => entry.held > HELD_AT_ONCE,
        large: entry.large,
        release,
      };
    },
    async close() {
      clearInterval(timer);
      const all = [...apps.values()].flatMap(({ kept, old }) => [...kept, ...old]);
      apps.clear();
      await Promise.allSettled(all.map((one) => one.close()));
    },
  };
}

/**
 * Where a line rests or nothing was found, the owner may just have put it right: what is hurried then must not meet
 * the old line, and what was accepted since must not fail.
 */
function isStale({ readAt, kept }: AppEntry): boolean {
  const isWell = kept.length > 0 && !kept.some((one) => one.rests());
  return !isWell || performance.now() - readAt > FRESH_MS;
}

function createEntry(): AppEntry {
  return {
    readAt: Number.NEGATIVE_INFINITY,
    usedAt: 0,
    held: 0,
    reading: undefined,
    kept: [],
    old: [],
    large: createSemaphore(LARGE_AT_ONCE),
  };
}

/** The credential of the address's own environment, else the one for all. */
function pick(kept: readonly OpenRoute[], address: Address): Route | undefined {
  const environment = address.channel === 'apns' ? address.environment : undefined;
  const own = kept.find(({ document }) => document.environment === environment);
  return (own ?? kept.find(({ document }) => document.environment === undefined))?.route;
}
