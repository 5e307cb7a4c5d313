import type { DeviceAuthKeys } from '@carillon/core/device-auth';
import type { Tracer } from '@carillon/core/tracing';
import {
  createGatewayChannel,
  type GatewayChannel,
  type GatewayEvents,
} from '@carillon/presence/gateway-channel';
import type { RedisAddress } from '@carillon/presence/redis';
import type { Producers } from '@carillon/queue/producers';
import type { Metrics } from '@carillon/runtime/metrics';
import type { ProxyWarner } from '@carillon/runtime/proxy-warner';
import type { Store } from '@carillon/store/store';
import { createAddressLimits, NO_ADDRESS_LIMITS } from './address-limits.ts';
import { createAppShares } from './app-shares.ts';
import { startConnectionReaper } from './connection-reaper.ts';
import { createConnections, drainConnections, toConnectedDevice } from './connections.ts';
import { createProxyDetector, NO_PROXY_DETECTOR } from './detect-proxy.ts';
import { createIosAppRecorder, createLastSeenRecorder } from './device-activity.ts';
import { createInboxReplay } from './inbox-replay.ts';
import { type ListenAddresses, type ListenSettings, listen } from './listen.ts';
import { createLiveDelivery, createWorkerReplies } from './live-delivery.ts';
import { createGatewayMetrics } from './metrics.ts';
import { createPendingConnections } from './pending-connections.ts';
import { createInboxReader } from './read-inbox.ts';
import { createReceipts } from './receipts.ts';

/** Maximum recipients that wait to be written; above it workers get no credit. */
const MAX_QUEUED_RECIPIENTS = 20_000;

/** Settings of a gateway. */
export interface GatewaySettings extends ListenSettings {
  store: Pick<
    Store,
    'apps' | 'inbox' | 'pushes' | 'collapse' | 'devices' | 'receipts' | 'suspensions' | 'clock'
  >;
  producers: Pick<Producers, 'publishPresence' | 'checkCompletion'>;
  metrics: Metrics;
  tracer?: Tracer | undefined;
  proxyWarner: ProxyWarner;
  presenceRedis: RedisAddress;
  listen: ListenAddresses;
  /** Bytes that may be buffered in all sockets together. */
  maxWaitingBytes: number;
  authKeys: DeviceAuthKeys;
  hasAddressLimits: boolean;
  /** Seconds over which connections are closed when the gateway stops. */
  drainSeconds: number;
}

/** A running gateway. */
export type Gateway = Awaited<ReturnType<typeof startGateway>>;

/** Starts a gateway and listens for devices. */
export async function startGateway(settings: GatewaySettings) {
  const { store, log, authKeys, drainSeconds } = settings;
  // The parts call the channel and the channel calls the parts; the parts call it only once a device is connected.
  const parts = createParts(settings, () => channel);
  const channel = await createGatewayChannel(settings.presenceRedis, createGatewayEvents(parts));
  const { connections, metrics } = parts;
  const limits = settings.hasAddressLimits ? createAddressLimits() : NO_ADDRESS_LIMITS;
  const onError = (err: unknown) =>
    log.warn({ err }, 'the suspended accounts and paused apps could not be read');
  void store.suspensions.startRefreshing(onError, () => checkAllInboxes(parts)).catch(onError);
  const pendingConnections = createPendingConnections(limits.pendingPerAddress, () =>
    metrics.countConnect('gave-way'),
  );
  const proxyDetector = settings.hasProxyHeader
    ? NO_PROXY_DETECTOR
    : createProxyDetector(settings.proxyWarner);
  const session = {
    ...{ ...parts, devices: store.devices, authKeys, limits },
    ...{ pendingConnections, proxyDetector },
  };
  const listeners = await listen(settings.listen, settings, session);

  async function stop(): Promise<void> {
    listeners.stop();
    pendingConnections.stop();
    await drainConnections(connections, drainSeconds);
    parts.replies.stop();
    parts.reaper.stop();
    metrics.stop();
    limits.stop();
    await Promise.all([parts.receipts.flush(), parts.lastSeen.stop()]);
    await channel.close();
  }

  let stopped: Promise<void> | undefined;
  return {
    /** Bound ports; 0 for a transport that is not offered. */
    ports: listeners.ports,
    /** Returns the number of connected devices. */
    countConnections: connections.size,
    /** Checks whether workers can find this gateway; until then devices get their pushes from the inbox. */
    isRegistered: channel.hasLease,
    /** The loops that keep presence and dispatch going, and the check of the Redis that they need. */
    loops: channel.loops,
    assertRedisWritable: channel.assertWritable,
    /** Closes all connections, spread over time, records their receipts and removes them from presence. */
    stop(): Promise<void> {
      stopped ??= stop();
      return stopped;
    },
  };
}

type Parts = ReturnType<typeof createParts>;

function createParts(settings: GatewaySettings, channel: () => GatewayChannel) {
  const { store, producers, maxConnections, maxWaitingBytes, tracer } = settings;
  const { clock, devices } = store;
  const metrics = createGatewayMetrics(settings.metrics);
  const iosApps = createIosAppRecorder(store.apps);
  const lastSeen = createLastSeenRecorder(producers, clock);
  const receipts = createReceipts(store.receipts, producers);
  const replies = createWorkerReplies(channel, metrics);
  const shares = createAppShares(maxConnections);
  const { settle } = replies;
  const connections = createConnections({ channel, shares, settle, lastSeen, metrics });
  metrics.observe(connections, maxConnections);
  const reader = createInboxReader({ store, producers, receipts, metrics, tracer });
  const inboxReplay = createInboxReplay({ reader, connections, devices, iosApps });
  const reaper = startConnectionReaper({ connections, shares, inboxReplay, maxWaitingBytes });
  const delivering = { channel, clock, connections, replies, inboxReplay, metrics, tracer };
  const liveDelivery = createLiveDelivery(delivering);
  return {
    metrics,
    iosApps,
    lastSeen,
    receipts,
    replies,
    shares,
    connections,
    inboxReplay,
    reaper,
    liveDelivery,
  };
}

/** Handles the messages from Redis. */
function createGatewayEvents(parts: Parts): GatewayEvents {
  const { connections, inboxReplay, liveDelivery, reaper } = parts;
  function replayInbox(token: string): void {
    const connection = connections.find(token);
    if (connection !== undefined) inboxReplay.replay(connection);
  }
  return {
    deliver: liveDelivery.deliver,
    inboxChanged(token, push) {
      const connection = connections.find(token);
      if (connection === undefined) return;
      // A replay would turn the pushes that arrive meanwhile into rows, whose notices cause further replays.
      if (connection.hasSent(push)) inboxReplay.recheck(connection);
      else inboxReplay.replay(connection);
    },
    kick({ token, connection: id }) {
      const connection = connections.find(token);
      if (connection?.id === id) connections.close(connection, 'taken-over');
    },
    reregistered: ({ token }) => replayInbox(token),
    recheckInbox({ token }) {
      const connection = connections.find(token);
      if (connection !== undefined) inboxReplay.recheck(connection);
    },
    *devices() {
      for (const connection of connections.all()) yield toConnectedDevice(connection);
    },
    isOpen({ token, connection: id }) {
      const connection = connections.find(token);
      return connection?.id === id && connection.isOpen();
    },
    credit: () =>
      reaper.isOverloaded() ? 0 : Math.max(0, MAX_QUEUED_RECIPIENTS - liveDelivery.pendingWrites()),
  };
}

/** Sends what the inboxes hold of an account that is no longer suspended. */
function checkAllInboxes({ connections, inboxReplay }: Parts): void {
  for (const connection of connections.all()) {
    // An inbox that can't be read now is checked at the next PINGREQ.
    void inboxReplay.checkInbox(connection).catch(() => undefined);
  }
}
