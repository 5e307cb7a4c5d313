import { setTimeout as sleep } from 'node:timers/promises';
import { type DispatchedDelivery, decodeGatewayMessage } from './gateway-messages.ts';
import { createLease, type Lease } from './lease.ts';
import { createPresenceRefresher } from './presence-refresher.ts';
import { type ConnectedDevice, createPresenceRegistry } from './presence-registry.ts';
import { connectPresence, type PresenceServer } from './presence-server.ts';
import { BLOCK_MS, type Redis, type RedisAddress, readStream, type StreamEntry } from './redis.ts';
import { createRedisTime } from './redis-time.ts';
import { createReplySender } from './reply-sender.ts';

const ENTRIES_PER_READ = 16;
/**
 * Handled entries after which the stream is trimmed, or after {@link TRIM_INTERVAL_MS}: otherwise each read would cost
 * a command.
 */
const TRIM_ENTRIES = 16;
const TRIM_INTERVAL_MS = 1_000;
/** Delay of the next read after a failed one. */
const RETRY_DELAY_MS = 200;
/**
 * Maximum wait of a message in the stream. Later ones are close to their deadline: the gateway sets its credit to 0.
 */
const MAX_LAG_MS = 400;
/**
 * Block time of a read while the gateway lags. With credit 0 the stream stays empty; a short block soon detects the end
 * of the lag.
 */
const LAGGING_BLOCK_MS = 50;

/** Handlers of a gateway for messages and state changes; implemented by the gateway and by the tests' gateway. */
export interface GatewayEvents {
  /** Handles a delivery. No further message is read until it resolves, which slows down an overloaded gateway. */
  deliver(delivery: DispatchedDelivery): Promise<void>;
  /** An inbox row of this push was written for this device. */
  inboxChanged(token: string, push: string): void;
  /** The device has a newer connection. */
  kick(device: Pick<ConnectedDevice, 'token' | 'connection'>): void;
  /** The device was registered late or again; workers saw it as offline, so its inbox must be read. */
  reregistered(device: ConnectedDevice): void;
  /** A notice of an inbox row may have been lost with Redis's last seconds, so the inbox must be checked. */
  recheckInbox(device: ConnectedDevice): void;
  /** Returns all connected devices. */
  devices(): Iterable<ConnectedDevice>;
  isOpen(device: ConnectedDevice): boolean;
  /** Returns the number of recipients that the gateway accepts now. */
  credit(): number;
}

/** Presence and dispatch, on the gateway's side. */
export type GatewayChannel = Awaited<ReturnType<typeof createGatewayChannel>>;

/**
 * Gives a gateway an identity in Redis, and reads what workers send to it. While Redis is unavailable, the gateway serves
 * devices from MongoDB.
 */
export async function createGatewayChannel(address: RedisAddress, on: GatewayEvents) {
  const server = await connectPresence(address);
  const reader = await server.openReader();
  const time = createRedisTime(server);
  await time.sample().catch(() => undefined);

  const lagMeter = createLagMeter(time.now);
  const registry = createPresenceRegistry(server, {
    gateway: () => lease.id(),
    isOpen: on.isOpen,
    now: time.now,
  });
  const refresher = createPresenceRefresher(registry, { ...on, takenOver: on.kick });
  const lease = createLease(server, {
    credit: () => (lagMeter.isLagging() ? 0 : on.credit()),
    renewed: () => void time.sample().catch(() => undefined),
    identityChanged: refresher.registerAll,
  });
  // Redis may have restarted without its last seconds, so fast that the lease still exists.
  server.onReconnect(() => {
    void lease.renew().catch(() => undefined);
    refresher.recheckAll();
  });
  const messages = consumeMessages({ server, reader, lease, lagMeter, on });
  const replySender = createReplySender(server.redis, time.now);

  return {
    /** Checks that workers can see this gateway. */
    hasLease: (): boolean => lease.id() !== undefined,
    /** Times of the last progress of the loops that need Redis, by the monotonic clock (`performance.now()`). */
    loops: {
      'presence refresher': refresher.lastProgressAt,
      'stream reader': messages.lastProgressAt,
      lease: lease.lastProgressAt,
    },
    /** Checks that Redis responds and takes writes. Throws the cause. */
    assertWritable: server.assertWritable,
    /** Returns milliseconds, by Redis's clock. */
    now: time.now,
    /** Registers a connection, later if Redis is unavailable. Never throws. */
    register: refresher.register,
    /** Unregisters a connection, later if Redis is unavailable. Never throws. */
    unregister: refresher.unregister,
    /** Sends a report about one recipient. Reports close in time share a round trip. */
    reply: replySender.add,
    /** Sends the collected results, then releases the lease. */
    async close(): Promise<void> {
      messages.stop();
      refresher.stop();
      await replySender.flush();
      await lease.release();
      reader.disconnect();
      server.close();
    },
  };
}

type LagMeter = ReturnType<typeof createLagMeter>;

/** Measures the lag of a stream's reader: an entry's id begins with Redis's time at which it was added. */
function createLagMeter(now: () => number) {
  let isLagging = false;
  return {
    isLagging: (): boolean => isLagging,
    /** Updates the state by the first entry of a read. Returns true if it changed. */
    update(entryId = ''): boolean {
      const wasLagging = isLagging;
      isLagging = now() - Number.parseInt(entryId, 10) > MAX_LAG_MS;
      return isLagging !== wasLagging;
    },
  };
}

/** Reads the stream of the current identity and trims handled messages. */
function consumeMessages({
  server: { redis, keys },
  reader,
  lease,
  lagMeter,
  on,
}: {
  server: PresenceServer;
  reader: Redis;
  lease: Lease;
  lagMeter: LagMeter;
  on: GatewayEvents;
}) {
  let stopped = false;
  let lastProgressAt = performance.now();
  let streamId: string | undefined;
  let lastId = '0-0';
  let untrimmed = 0;
  let trimmedAt = 0;

  /** Trims what was handled. The stream ends with its gateway, so a missed trim costs memory only. */
  function trimHandled(key: string): void {
    const now = performance.now();
    const isDue = untrimmed >= TRIM_ENTRIES || now - trimmedAt >= TRIM_INTERVAL_MS;
    if (untrimmed === 0 || !isDue) return;
    untrimmed = 0;
    trimmedAt = now;
    void redis.xtrim(key, 'MINID', nextEntryId(lastId)).catch(() => 0);
  }

  async function readOnce(): Promise<void> {
    const currentId = lease.id();
    if (currentId === undefined) {
      lastProgressAt = performance.now();
      return void (await sleep(RETRY_DELAY_MS));
    }
    if (currentId !== streamId) lastId = '0-0';
    streamId = currentId;
    const key = keys.gatewayStream(currentId);
    const blockMs = lagMeter.isLagging() ? LAGGING_BLOCK_MS : BLOCK_MS;
    const entries = await readStream(reader, key, lastId, { count: ENTRIES_PER_READ, blockMs });
    lastProgressAt = performance.now();
    // The lease holds the credit, so a renewal informs workers of the change at once.
    if (lagMeter.update(firstMessageId(entries))) void lease.renew().catch(() => undefined);
    for (const [entryId, fields] of entries) {
      lastId = entryId;
      await handleMessage(fields, on);
      lastProgressAt = performance.now();
    }
    untrimmed += entries.length;
    // A read without entries ends after a second at most: the last ones are trimmed then.
    trimHandled(key);
  }

  async function follow(): Promise<void> {
    while (!stopped) {
      await readOnce().catch(() => (stopped ? undefined : sleep(RETRY_DELAY_MS)));
    }
  }

  void follow();
  return {
    lastProgressAt: (): number => lastProgressAt,
    stop(): void {
      stopped = true;
    },
  };
}

/** Returns the id of the first message. The marker at a stream's beginning is skipped: it is as old as the lease. */
function firstMessageId(entries: readonly StreamEntry[]): string | undefined {
  return entries.find(([, fields]) => fields[0] !== 'begin')?.[0];
}

async function handleMessage(fields: readonly string[], on: GatewayEvents): Promise<void> {
  const message = decodeGatewayMessage(fields);
  if (message?.kind === 'deliver') await on.deliver(message.delivery);
  else if (message?.kind === 'drain')
    for (const token of message.tokens) on.inboxChanged(token, message.push);
  else if (message?.kind === 'kick')
    on.kick({ token: message.token, connection: message.connection });
}

/** Returns the id after that of a stream entry. */
function nextEntryId(entryId: string): string {
  const [ms, sequence] = entryId.split('-');
  return `${ms}-${Number(sequence) + 1}`;
}
