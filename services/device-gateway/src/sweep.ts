import type { Connection } from './connection.ts';
import type { Connections } from './connections.ts';

const EVERY_MS = 1_000;
/** Time for a push to be acknowledged, and for a full socket to take bytes, before the link counts as dead. */
const PROGRESS_WITHIN_MS = 30_000;

/** What the sweep found, and its end. */
export interface Sweep {
  /** Whether too much waits in sockets. */
  isStrained(): boolean;
  stop(): void;
}

export interface SweepDeps {
  connections: Connections;
  look(connection: Connection): Promise<void>;
}

/** Bytes waiting in all sockets together above which nothing more is taken. */
const STRAINED_AT_BYTES = 64 * 1_024 * 1_024;

/** Sees to all that is due by time, with one timer for all links instead of one each. */
export function startSweep({ connections, look }: SweepDeps): Sweep {
  let isStrained = false;

  function sweep(): void {
    const now = performance.now();
    let waitingBytes = 0;
    for (const connection of connections.all()) {
      waitingBytes += connection.wire.writableLength;
      const reason = endOf(connection, now);
      if (reason !== undefined) connections.close(connection, reason);
      else lookIfDue(connection, now);
    }
    isStrained = waitingBytes > STRAINED_AT_BYTES;
  }

  function lookIfDue(connection: Connection, now: number): void {
    connection.idlePackets = 0;
    if (connection.lookAt === 0 || now < connection.lookAt || connection.inFlight.length > 0)
      return;
    connection.lookAt = 0;
    void look(connection).catch(() => {
      connection.lookAt = now + EVERY_MS;
    });
  }

  const timer = setInterval(sweep, EVERY_MS);
  return { isStrained: () => isStrained, stop: () => clearInterval(timer) };
}

/** Why a link ends now; undefined: it doesn't. */
function endOf(connection: Connection, now: number): string | undefined {
  if (now - connection.heardAt > connection.silenceMs) return 'silent';
  const [oldest] = connection.inFlight;
  if (oldest !== undefined && now - oldest.sentAt > PROGRESS_WITHIN_MS) return 'unacknowledged';
  if (connection.wire.writableLength === 0) connection.stuckSince = 0;
  else if (connection.stuckSince === 0) connection.stuckSince = now;
  else if (now - connection.stuckSince > PROGRESS_WITHIN_MS) return 'stuck';
  return undefined;
}
