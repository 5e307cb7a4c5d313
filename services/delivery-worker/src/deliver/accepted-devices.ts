import { ACCEPTANCE_PRECISION_MS } from '@carillon/store/idle-devices';
import type { Store } from '@carillon/store/store';

/** Maximum devices of a write. */
const MAX_PER_WRITE = 1_000;
/** Maximum devices that wait for a write while writes fail; further ones are not recorded. */
const MAX_PENDING = 100_000;
/** Maximum age of the list of the apps that prune devices. */
const APPS_MAX_AGE_MS = 30_000;
/** Maximum such apps that are read together. */
const APPS_PER_READ = 1_000;

/**
 * Creates the recorder of the devices for which providers accept pushes, in apps that prune idle devices. Of other apps it writes
 * nothing; while nothing is accepted it reads nothing. Batches that end at the same time share a write.
 */
export function createAcceptedRecorder(
  { apps, devices, clock }: Pick<Store, 'apps' | 'devices' | 'clock'>,
  onError: (error: unknown) => void,
) {
  /** The app of each device. */
  const pending = new Map<string, string>();
  let pruningApps = new Set<string>();
  let readAt = Number.NEGATIVE_INFINITY;
  let writing: Promise<void> | undefined;

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
    await readPruningApps();
    for (const [token, app] of pending) if (!pruningApps.has(app)) pending.delete(token);
    const tokens = [...pending.keys()];
    for (let from = 0; from < tokens.length; from += MAX_PER_WRITE) {
      const some = tokens.slice(from, from + MAX_PER_WRITE);
      await Promise.all(some.map(devices.markSeen));
      // What a failed write leaves is written by the next one.
      for (const token of some) pending.delete(token);
    }
  }

  function startWrite(): Promise<void> {
    return write()
      .catch(onError)
      .finally(() => {
        writing = undefined;
      });
  }

  /** Writes what is recorded so far. Does not reject: a delivery goes on without it. */
  async function flush(): Promise<void> {
    // It may have begun before the last device was recorded.
    await writing;
    if (pending.size === 0) return;
    writing ??= startWrite();
    await writing;
  }

  return {
    /** Records that a provider has accepted a push to a device, if its stored time would be too old; `flush` writes it. */
    record(app: string, { token, lastActiveAt }: { token: string; lastActiveAt: Date }): void {
      const isDue = clock.now() - lastActiveAt.getTime() >= ACCEPTANCE_PRECISION_MS;
      if (isDue && pending.size < MAX_PENDING) pending.set(token, app);
    },
    flush,
    stop: flush,
  };
}
