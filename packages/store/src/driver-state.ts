import type { MongoClient } from 'mongodb';

/**
 * Replaces the sets in which a client keeps its open cursors and sessions. A `Set` that grows leaves a table that points to
 * the next one; one table in V8's old memory then keeps all later ones alive, with their cursors and documents, until the
 * next collection of old memory.
 *
 * @throws Error when this version of the driver has no such sets
 */
export function replaceActiveSets(client: MongoClient): void {
  const state = Reflect.get(client, 's') as Record<string, unknown> | undefined;
  for (const name of ['activeCursors', 'activeSessions']) {
    if (!(state?.[name] instanceof Set)) throw new Error(`the driver has no set ${name}`);
    state[name] = createArraySet();
  }
}

/** Interval in which an idle pool checks for connections that have ended. A pool also checks each time it returns one. */
const POOL_CHECK_INTERVAL_MS = 2_000;
/** For a pool that keeps connections: each check also opens one that is missing. Calls open what they need at once. */
const KEPT_POOL_CHECK_INTERVAL_MS = 500;

/**
 * Makes the pools of a client that has not connected yet check for ended connections less often than ten times a second,
 * which are most of the times that an idle process wakes up.
 *
 * @param keepsConnections the client has a least number of connections
 * @throws Error when this version of the driver does not let its options be changed
 */
export function checkPoolsSeldom(client: MongoClient, keepsConnections: boolean): void {
  const intervalMs = keepsConnections ? KEPT_POOL_CHECK_INTERVAL_MS : POOL_CHECK_INTERVAL_MS;
  // The driver knows the option, but refuses it from others.
  if (!Reflect.set(client.options, 'minPoolSizeCheckFrequencyMS', intervalMs))
    throw new Error("the driver's options can't be changed");
}

/** Creates a set in an array, with the methods that the driver calls. */
function createArraySet() {
  const items: unknown[] = [];
  return {
    add(item: unknown): void {
      if (!items.includes(item)) items.push(item);
    },
    delete(item: unknown): void {
      const index = items.indexOf(item);
      if (index < 0) return;
      const last = items.pop();
      if (index < items.length) items[index] = last;
    },
    clear(): void {
      items.length = 0;
    },
    /** Iterates over a copy: the driver closes the items meanwhile, which removes them. */
    [Symbol.iterator]: () => [...items].values(),
  };
}
