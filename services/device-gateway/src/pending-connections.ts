import { toAddressGroup } from '@carillon/core/client-address';
import type { Transport } from './transport.ts';

/** Maximum time for a new connection to send its CONNECT, handshakes of the transport included. */
const CONNECT_TIMEOUT_MS = 5_000;
/**
 * Minimum age of a connection without a CONNECT that is evicted: enough for the handshakes of many devices behind one
 * address, which would otherwise evict each other before any of them completes.
 */
const EVICTION_GRACE_MS = 500;
/** Maximum time for a rejected connection to close after its CONNACK. */
const CLOSE_TIMEOUT_MS = 1_000;
/** Interval between two checks for overdue connections. */
const CHECK_INTERVAL_MS = 250;

/** Address of a connection behind a proxy until its PROXY header is read; it counts for no address. */
export const UNKNOWN_ADDRESS = '';

/** A connection whose device is not authenticated. */
export interface PendingConnection {
  address: string;
  /** First the TCP socket, then TLS or WebSocket over it. */
  transport: Transport;
  /** Monotonic milliseconds. */
  readonly openedAt: number;
  /** `connecting` before its CONNECT, `rejected` while its CONNACK or its close is awaited. */
  stage: 'connecting' | 'authenticating' | 'rejected';
  /** Time at which it is closed by force; monotonic milliseconds. */
  forceCloseAt: number;
  /** Sends the delayed CONNACK. */
  rejectTimer?: NodeJS.Timeout;
}

export type PendingConnections = ReturnType<typeof createPendingConnections>;

/**
 * Holds the pending connections of a process. To make room it evicts rejected connections first, then the oldest
 * without a CONNECT: a device that sends its CONNECT at once is never evicted.
 *
 * @param maxPerAddress most pending connections of an address (IPv6: of a /64)
 * @param onEvicted is called when a connection is closed to make room
 * @param now monotonic milliseconds
 */
export function createPendingConnections(
  maxPerAddress: number,
  onEvicted: () => void,
  now: () => number = () => performance.now(),
) {
  const byStage = createStageIndex();
  const byAddress = createAddressIndex(maxPerAddress);

  function remove(pending: PendingConnection): void {
    clearTimeout(pending.rejectTimer);
    if (byStage.remove(pending)) byAddress.remove(pending);
  }

  /** @param graceMs a connection without a CONNECT that is younger stays */
  function evict(pending: PendingConnection | undefined, graceMs: number): boolean {
    if (pending === undefined) return false;
    const openForMs = now() - pending.openedAt;
    if (pending.stage === 'connecting' && openForMs < graceMs) return false;
    pending.transport.destroy();
    remove(pending);
    onEvicted();
    return true;
  }

  function ensureCapacity(address: string, graceMs: number): boolean {
    return byAddress.hasCapacity(address) || evict(byAddress.findEvictable(address), graceMs);
  }

  function closeOverdue(): void {
    const time = now();
    for (const pending of byStage.all()) {
      if (pending.forceCloseAt < time) pending.transport.destroy();
      // A connection that closes before MQTT starts is detected only here.
      if (pending.transport.destroyed) remove(pending);
    }
    if (byStage.count() === 0) stopTimer();
  }

  /** Runs while there is a pending connection. */
  let timer: NodeJS.Timeout | undefined;
  function stopTimer(): void {
    clearInterval(timer);
    timer = undefined;
  }
  return {
    count: byStage.count,
    /**
     * Adds a connection, if necessary in place of another of its address.
     *
     * @returns undefined if none can be evicted yet
     */
    add(transport: Transport, address: string): PendingConnection | undefined {
      if (!ensureCapacity(address, EVICTION_GRACE_MS)) return undefined;
      const openedAt = now();
      const forceCloseAt = openedAt + CONNECT_TIMEOUT_MS;
      const pending: PendingConnection = {
        address,
        transport,
        openedAt,
        stage: 'connecting',
        forceCloseAt,
      };
      byStage.add(pending);
      byAddress.add(pending);
      timer ??= setInterval(closeOverdue, CHECK_INTERVAL_MS);
      return pending;
    },
    /**
     * Sets the address that a proxy has sent.
     *
     * @returns false if the address has too many connections and none can be evicted
     */
    setAddress(pending: PendingConnection, address: string): boolean {
      byAddress.remove(pending);
      // The handshake starts now and can't be delayed.
      const isWithinLimit = ensureCapacity(address, 0);
      pending.address = address;
      byAddress.add(pending);
      return isWithinLimit;
    },
    /** Stops the time limit for the CONNECT; authentication has a limit of its own. */
    markAuthenticating: (pending: PendingConnection): void =>
      byStage.setStage(pending, 'authenticating', Number.POSITIVE_INFINITY),
    /** Sends a rejection after a delay; a connection that is evicted before gets none. */
    reject(pending: PendingConnection, delayMs: number, sendRejection: () => void): void {
      byStage.setStage(pending, 'rejected', now() + delayMs + CLOSE_TIMEOUT_MS);
      if (delayMs === 0) sendRejection();
      else pending.rejectTimer = setTimeout(sendRejection, delayMs);
    },
    /**
     * Evicts one connection.
     *
     * @returns false if none can be evicted yet
     */
    evictOne: (): boolean => evict(byStage.findEvictable(), EVICTION_GRACE_MS),
    remove,
    /** Closes all. */
    stop(): void {
      stopTimer();
      for (const { transport } of byStage.all()) transport.destroy();
    },
  };
}

/** Indexes pending connections by stage, oldest first. */
function createStageIndex() {
  const stages = {
    connecting: new Set<PendingConnection>(),
    authenticating: new Set<PendingConnection>(),
    rejected: new Set<PendingConnection>(),
  };

  return {
    count: () => stages.connecting.size + stages.authenticating.size + stages.rejected.size,
    all: () => Object.values(stages).flatMap((some) => [...some]),
    findEvictable: () => findFirst(stages.rejected) ?? findFirst(stages.connecting),
    add: (pending: PendingConnection) => void stages[pending.stage].add(pending),
    remove: (pending: PendingConnection) => stages[pending.stage].delete(pending),
    setStage(
      pending: PendingConnection,
      stage: PendingConnection['stage'],
      forceCloseAt: number,
    ): void {
      // It was removed because it is closed.
      if (!stages[pending.stage].delete(pending)) return;
      pending.stage = stage;
      pending.forceCloseAt = forceCloseAt;
      stages[stage].add(pending);
    },
  };
}

/** Indexes pending connections by address, oldest first. */
function createAddressIndex(maxPerGroup: number) {
  const byGroup = new Map<string, Set<PendingConnection>>();
  const connectionsAt = (address: string) => byGroup.get(toAddressGroup(address));

  return {
    hasCapacity: (address: string) =>
      address === UNKNOWN_ADDRESS || (connectionsAt(address)?.size ?? 0) < maxPerGroup,
    findEvictable(address: string): PendingConnection | undefined {
      let oldestConnecting: PendingConnection | undefined;
      for (const pending of connectionsAt(address) ?? []) {
        if (pending.stage === 'rejected') return pending;
        if (pending.stage === 'connecting') oldestConnecting ??= pending;
      }
      return oldestConnecting;
    },
    add(pending: PendingConnection): void {
      if (pending.address === UNKNOWN_ADDRESS) return;
      const group = connectionsAt(pending.address);
      if (group === undefined) byGroup.set(toAddressGroup(pending.address), new Set([pending]));
      else group.add(pending);
    },
    remove(pending: PendingConnection): void {
      const group = connectionsAt(pending.address);
      group?.delete(pending);
      if (group?.size === 0) byGroup.delete(toAddressGroup(pending.address));
    },
  };
}

function findFirst(some: ReadonlySet<PendingConnection>): PendingConnection | undefined {
  for (const first of some) return first;
  return undefined;
}
