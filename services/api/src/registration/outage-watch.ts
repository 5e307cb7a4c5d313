/** How long after a failure of ours no new device is registered. */
const QUIET_MS = 60_000;

/**
 * Remembers failures of the database. The official SDKs register anew after any failed check of their
 * credentials unless registering fails too, so a process that saw a failure refuses to register for a while:
 * an outage, however short, must never replace tokens (guarantee G15).
 */
export function createOutageWatch() {
  let lastFailureAt = Number.NEGATIVE_INFINITY;
  return {
    noteFailure(): void {
      lastFailureAt = performance.now();
    },
    isQuiet: (): boolean => performance.now() - lastFailureAt > QUIET_MS,
  };
}
