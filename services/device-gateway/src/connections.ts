import { setTimeout as sleep } from 'node:timers/promises';
import type { GatewayChannel } from '@carillon/presence/gateway-channel';
import type { ConnectedDevice } from '@carillon/presence/presence-registry';
import type { AppLoad, AppShares } from './app-shares.ts';
import type { Connection, InFlightPublish } from './connection.ts';
import type { LastSeenRecorder } from './device-activity.ts';
import type { GatewayMetrics } from './metrics.ts';

/** Interval between two steps of a drain. */
const DRAIN_TICK_MS = 50;
/** Maximum wait for receipts in transit. */
const RECEIPT_GRACE_MS = 1_000;
/** Maximum wait for the device to complete the close of TLS or WebSocket. */
const CLOSE_HANDSHAKE_MS = 500;

/** Returns the entry of a connection in presence. */
export function toConnectedDevice({ token, id, connectedAt }: Connection): ConnectedDevice {
  return { token, connection: id, connectedAt };
}

export type Connections = ReturnType<typeof createConnections>;

/** Holds the devices that are connected to this process. */
export function createConnections(context: {
  /** Returns the channel to presence, which exists once a device can connect. */
  channel(): Pick<GatewayChannel, 'register' | 'unregister'>;
  shares: AppShares;
  /** Replies to the workers that wait for a push. */
  settle(publish: InFlightPublish, result: 'unacked'): void;
  lastSeen: LastSeenRecorder;
  metrics: Pick<GatewayMetrics, 'countClose'>;
}) {
  const { channel, shares, settle, lastSeen, metrics } = context;
  const byToken = new Map<string, Connection>();
  /** Continues where the last search ended, so that many searches together visit each connection a few times only. */
  let searchCursor = byToken.values();

  function close(connection: Connection, reason: string): void {
    if (connection.state === 'closed') return;
    const wasClosing = connection.state === 'closing';
    for (const publish of connection.close()) settle(publish, 'unacked');
    metrics.countClose(reason);
    shares.closed(connection.app);
    if (byToken.get(connection.token) === connection) {
      byToken.delete(connection.token);
      lastSeen.record(connection.token);
    }
    if (!wasClosing) void channel().unregister(toConnectedDevice(connection));
  }

  function closeOneWhere(matches: (load: AppLoad) => boolean): void {
    for (let remaining = byToken.size; remaining > 0; remaining -= 1) {
      let next = searchCursor.next();
      if (next.done) {
        searchCursor = byToken.values();
        next = searchCursor.next();
      }
      if (next.done || !matches(next.value.app)) continue;
      close(next.value, 'over-share');
      return;
    }
  }

  return {
    find: (token: string): Connection | undefined => byToken.get(token),
    all: (): IterableIterator<Connection> => byToken.values(),
    size: (): number => byToken.size,
    /** Decides whether an app may open one more connection; may close one of an app above its share. */
    canOpen: (load: AppLoad): boolean => shares.canOpen(load, closeOneWhere),
    /** Adds a device and registers it in presence; an older connection of it is closed (MQTT-3.1.4-2). */
    async add(connection: Connection): Promise<void> {
      const older = byToken.get(connection.token);
      byToken.set(connection.token, connection);
      shares.opened(connection.app);
      if (older !== undefined) close(older, 'taken-over');
      lastSeen.record(connection.token);
      await channel().register(toConnectedDevice(connection));
    },
    close,
    /** Stops dispatches to a connection: its device is offline in presence from now on. */
    markClosing(connection: Connection): void {
      if (connection.markClosing()) void channel().unregister(toConnectedDevice(connection));
    },
    /** Counts a device for its app, which was unknown while MongoDB was unreachable. */
    assignApp(connection: Connection, app: string): void {
      if (connection.app.app !== undefined) return;
      shares.closed(connection.app);
      connection.assignApp(shares.loadOf(app));
      shares.opened(connection.app);
    },
  };
}

/** Closes all connections, spread over time, so that devices don't reconnect all at once (guarantee G17). */
export async function drainConnections(connections: Connections, seconds: number): Promise<void> {
  const all = [...connections.all()];
  const startedAt = performance.now();
  const closing: Promise<void>[] = [];
  while (closing.length < all.length) {
    // By the clock: a tick takes longer than its time, and thousands of them would exceed the deadline of the stop.
    const share = (performance.now() - startedAt + DRAIN_TICK_MS) / (seconds * 1_000);
    for (const connection of all.slice(closing.length, Math.ceil(all.length * share)))
      closing.push(closeGracefully(connections, connection));
    if (closing.length < all.length) await sleep(DRAIN_TICK_MS);
  }
  await Promise.all(closing);
}

async function closeGracefully(connections: Connections, connection: Connection): Promise<void> {
  connections.markClosing(connection);
  await waitUntil(RECEIPT_GRACE_MS, () => connection.inFlight.length === 0);
  // Some clients stop reconnecting when TLS breaks off without an orderly close.
  connection.transport.end();
  await waitUntil(CLOSE_HANDSHAKE_MS, () => connection.state === 'closed');
  connections.close(connection, 'restart');
}

async function waitUntil(ms: number, isDone: () => boolean): Promise<void> {
  const deadline = performance.now() + ms;
  while (!isDone() && performance.now() < deadline) await sleep(DRAIN_TICK_MS);
}
