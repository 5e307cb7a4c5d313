/** Fraction of the connections a process may hold above which each app is limited to its share. */
const ENFORCE_SHARES_ABOVE = 0.8;

/** The use that one app makes of this process; shared by all connections of the app. */
export interface AppLoad {
  /** Undefined for devices whose app is unknown because MongoDB was unreachable when they connected. */
  readonly app: string | undefined;
  connections: number;
  /** Bytes buffered in its sockets. */
  waitingBytes: number;
  /** No live push is written for it: its buffered bytes exceed its share of the memory for them. */
  isThrottled: boolean;
}

export type AppShares = ReturnType<typeof createAppShares>;

/**
 * Prevents one app from using a whole process: a process serves many apps, and any client may register devices.
 *
 * @param maxConnections most connections of the process
 */
export function createAppShares(maxConnections: number) {
  const loads = new Map<string | undefined, AppLoad>();
  let openConnections = 0;

  function loadOf(app: string | undefined): AppLoad {
    return loads.get(app) ?? { app, connections: 0, waitingBytes: 0, isThrottled: false };
  }

  function fairShareOf(load: AppLoad): number {
    return maxConnections / (loads.size + (loads.has(load.app) ? 0 : 1));
  }

  function evictAbove(
    share: number,
    evictOne: (matches: (load: AppLoad) => boolean) => void,
  ): boolean {
    const isOverShare = (load: AppLoad) => load.app !== undefined && load.connections > share;
    if (![...loads.values()].some(isOverShare)) return false;
    evictOne(isOverShare);
    return true;
  }

  return {
    loadOf,
    opened(load: AppLoad): void {
      load.connections += 1;
      openConnections += 1;
      loads.set(load.app, load);
    },
    closed(load: AppLoad): void {
      load.connections -= 1;
      openConnections -= 1;
      if (load.connections === 0) loads.delete(load.app);
    },
    /**
     * Decides whether an app may open one more connection. In a nearly full process an app gets an equal share of
     * the connections. In a full process one connection of an app above its share is evicted.
     *
     * @param evictOne closes one connection of a matching app; there is one
     */
    canOpen(load: AppLoad, evictOne: (matches: (load: AppLoad) => boolean) => void): boolean {
      if (openConnections < maxConnections * ENFORCE_SHARES_ABOVE) return true;
      const share = fairShareOf(load);
      // An unknown app has no share; its devices are accepted while there is capacity.
      const isWithinShare =
        load.app === undefined ? openConnections < maxConnections : load.connections < share;
      return isWithinShare && (openConnections < maxConnections || evictAbove(share, evictOne));
    },
    /** Loads of all apps that have connections. */
    all: (): Iterable<AppLoad> => loads.values(),
  };
}
