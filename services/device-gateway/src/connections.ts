import type { Addressee, Answer, Link } from '@carillon/presence/gateway-link';
import type { Connection, Owed } from './connection.ts';

export interface ConnectionsDeps {
  announce(link: Link): Promise<void>;
  withdraw(link: Link): Promise<void>;
  answer(to: Addressee, answer: Answer): void;
  drain(connection: Connection): void;
  record(connection: Connection, owed: Owed): void;
  /** A sign of life for MongoDB. */
  sawDevice(token: string): void;
  acknowledged(kind: 'in-time' | 'recorded'): void;
  closed(reason: string): void;
}

/** The devices that are connected to this process. */
export interface Connections {
  find(token: string): Connection | undefined;
  all(): IterableIterator<Connection>;
  size(): number;
  /** Takes a device in; an older connection of it is closed (MQTT-3.1.4-2). */
  open(connection: Connection): Promise<void>;
  /** Takes a PUBACK; false when nothing of that id was in flight. */
  acknowledge(connection: Connection, packetId: number): boolean;
  close(connection: Connection, reason: string): void;
  /** Stops handing over to a connection: its device looks offline from now on. */
  leave(connection: Connection): void;
}

export function createConnections(deps: ConnectionsDeps): Connections {
  const byToken = new Map<string, Connection>();

  function linkOf({ token, id }: Connection): Link {
    return { token, connection: id };
  }

  function close(connection: Connection, reason: string): void {
    if (connection.state === 'closed') return;
    const hadLeft = connection.state === 'leaving';
    connection.state = 'closed';
    connection.wire.destroy();
    for (const { waiters } of connection.inFlight) {
      for (const waiter of waiters) if (!waiter.answered) deps.answer(waiter, 'silent');
      for (const waiter of waiters) waiter.answered = true;
    }
    connection.inFlight = [];
    connection.wake?.();
    deps.closed(reason);
    if (byToken.get(connection.token) === connection) {
      byToken.delete(connection.token);
      deps.sawDevice(connection.token);
    }
    if (!hadLeft) void deps.withdraw(linkOf(connection));
  }

  return {
    find: (token) => byToken.get(token),
    all: () => byToken.values(),
    size: () => byToken.size,
    close,
    async open(connection) {
      const older = byToken.get(connection.token);
      byToken.set(connection.token, connection);
      if (older !== undefined) close(older, 'taken-over');
      deps.sawDevice(connection.token);
      // First seen, then read: what a worker writes before it sees us is read, what it does later reaches us.
      await deps.announce(linkOf(connection));
      deps.drain(connection);
    },
    acknowledge(connection, packetId) {
      const sent = connection.acknowledge(packetId);
      if (sent === undefined) return false;
      for (const waiter of sent.waiters) {
        if (waiter.answered) continue;
        waiter.answered = true;
        deps.answer(waiter, 'acknowledged');
      }
      if (sent.toRecord) deps.record(connection, sent);
      deps.acknowledged(sent.toRecord ? 'recorded' : 'in-time');
      connection.wake?.();
      return true;
    },
    leave(connection) {
      if (!connection.isOpen()) return;
      connection.state = 'leaving';
      connection.wake?.();
      void deps.withdraw(linkOf(connection));
    },
  };
}
