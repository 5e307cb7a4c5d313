import type { Store } from '@carillon/store/store';
import { LRUCache } from 'lru-cache';

/** Delay of a write, with which it records the devices of many pushes. */
const WRITE_DELAY_MS = 1_000;
/** Maximum devices of a write. */
const MAX_PER_WRITE = 1_000;
/** Maximum pending devices; further ones are recorded with their next push. */
const MAX_PENDING = 100_000;
/** Maximum age of the list of the apps that prune devices. */
const APPS_MAX_AGE_MS = 30_000;
/** Maximum such apps that are read together. */
const APPS_PER_READ = 1_000;
/** Maximum devices that are remembered, and for how long: a device is written once a day at most. */
const MAX_REMEMBERED = 100_000;
const REMEMBERED_MS = 6 * 3_600_000;

/**
 * Creates the recorder of the devices for which providers accept pushes, in apps that prune idle devices. Of other apps it writes
 * nothing; while nothing is accepted it reads nothing.
 */
export function createAcceptedRecorder(
  { apps, devices }: Pick<Store, 'apps' | 'devices'>,
  onError: (error: unknown) => void,
) {
  const remembered = new LRUCache<string, true>({ max: MAX_REMEMBERED, ttl: REMEMBERED_MS });
  let pending: [app: string, token: string][] = [];
  let pruningApps = new Set<string>();
  let readAt = Number.NEGATIVE_INFINITY;
  let timer: NodeJS.Timeout | undefined;

  async function readPruningApps(): Promise<void> {
    if (performance.now() - readAt < APPS_MAX_AGE_MS) return;
    const startedAt = performance.now();
    const found = new Set<string>();
    for (let after: string | undefined = ''; after !== undefined; ) {
      const page = await apps.listPruning(after, APPS_PER_READ);
      for (const { _id } of page) found.add(_id);
      after = page.length < APPS_PER_READ ? undefined : page.at(-1)?._id;
    }
    pruningApps = found;
    readAt = startedAt;
  }

  async function write(): Promise<void> {
    const accepted = pending;
    pending = [];
    await readPruningApps();
    const tokens = accepted.flatMap(([app, token]) => (pruningApps.has(app) ? [token] : []));
    const unrecorded = [...new Set(tokens)].filter((token) => !remembered.has(token));
    for (let from = 0; from < unrecorded.length; from += MAX_PER_WRITE) {
      const some = unrecorded.slice(from, from + MAX_PER_WRITE);
      await devices.recordAcceptances(some);
      for (const token of some) remembered.set(token, true);
    }
  }

  function writeSoon(): void {
    timer ??= setTimeout(() => {
      timer = undefined;
      void write().catch(onError);
    }, WRITE_DELAY_MS);
  }

  return {
    /** Records that a provider has accepted a push to a device. */
    record(app: string, token: string): void {
      if (pending.length >= MAX_PENDING) return;
      pending.push([app, token]);
      writeSoon();
    },
    /** Writes what is pending. */
    async stop(): Promise<void> {
      clearTimeout(timer);
      if (pending.length > 0) await write().catch(onError);
    },
  };
}
