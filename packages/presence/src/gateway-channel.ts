import { setTimeout as sleep } from 'node:timers/promises';
import { type DispatchedDelivery, decodeGatewayMessage } from './gateway-messages.ts';
import { gatewayStreamKey, TTL_SECONDS } from './keys.ts';
import { createLease, type Lease } from './lease.ts';
import { createPresenceRefresher } from './presence-refresher.ts';
import { type ConnectedDevice, createPresenceRegistry } from './presence-registry.ts';
import { BLOCK_MS, connectWithReader, type Redis, type RedisAddress } from './redis.ts';
import { createRedisTime } from './redis-time.ts';
import { createResultBatch, type DeliveryResult, type ReplyTo } from './replies.ts';

const REPLY_INTERVAL_MS = 10;
const REPLY_RETENTION_MS = 60_000;
const ENTRIES_PER_READ = 16;
/** Handled messages are trimmed after so many, or after this time: each read would cost a command of its own. */
const TRIM_ENTRIES = 16;
const TRIM_INTERVAL_MS = 1_000;
/** A reply stream that was written gets its expiry within this time. */
const EXPIRE_DELAY_MS = 2_000;
const RETRY_DELAY_MS = 200;
/** Messages that waited this long are close to their deadline: the gateway sets its credit to 0. */
const MAX_LAG_MS = 400;
/** With credit 0 the stream stays empty; a short block notices soon that the lag is over. */
const LAGGING_BLOCK_MS = 50;

/** Handlers of a gateway for messages and state changes; implemented by the gateway and by the tests' gateway. */
export interface GatewayEvents {
  /** Handles a delivery. No further message is read until it resolves, which slows down an overloaded gateway. */
  deliver(delivery: DispatchedDelivery): Promise<void>;
  /** An inbox row was written for this device. */
  inboxChanged(token: string): void;
  /** The device has a newer connection. */
  kick(device: Pick<ConnectedDevice, 'token' | 'connection'>): void;
  /** The device was registered late or again; workers saw it as offline, so its inbox must be read. */
  reregistered(device: ConnectedDevice): void;
  /** A notice of an inbox row may have been lost with Redis's last seconds, so the inbox must be checked. */
  recheckInbox(device: ConnectedDevice): void;
  devices(): Iterable<ConnectedDevice>;
  isOpen(device: ConnectedDevice): boolean;
  /** Returns the number of recipients that the gateway accepts now. */
  credit(): number;
}

/** A loop of a gateway and the time of its last progress by the monotonic clock (`performance.now()`). */
interface ChannelLoop {
  name: string;
  lastProgressAt(): number;
}

/** Presence and dispatch, on the gateway's side. */
export type GatewayChannel = Awaited<ReturnType<typeof createGatewayChannel>>;

/** Connects a gateway to Redis. While Redis is away, the gateway serves devices from MongoDB. */
export async function createGatewayChannel(address: RedisAddress, on: GatewayEvents) {
  const { redis, reader } = await connectWithReader(address);
  const time = createRedisTime(redis);
  await time.sample().catch(() => undefined);

  const lagMeter = createLagMeter(time.now);
  const registry = createPresenceRegistry(redis, {
    gateway: () => lease.id(),
    isOpen: on.isOpen,
    now: time.now,
  });
  const refresher = createPresenceRefresher(registry, { ...on, takenOver: on.kick });
  const lease = createLease(redis, {
    credit: () => (lagMeter.isLagging() ? 0 : on.credit()),
    renewed: () => void time.sample().catch(() => undefined),
    identityChanged: refresher.registerAll,
  });
  // Redis may have restarted without its last seconds, so fast that the lease still exists.
  redis.on('ready', () => {
    void lease.renew().catch(() => undefined);
    refresher.recheckAll();
  });
  const messages = consumeMessages({ redis, reader, lease, lagMeter, on });
  const replySender = createReplySender(redis, time.now);

  return {
    /** Checks that workers can see this gateway. */
    hasLease: (): boolean => lease.id() !== undefined,
    /** The loops that must go on while Redis responds. */
    loops: [
      { name: 'presence refresher', lastProgressAt: refresher.lastProgressAt },
      { name: 'stream reader', lastProgressAt: messages.lastProgressAt },
      { name: 'lease', lastProgressAt: lease.lastProgressAt },
    ] satisfies ChannelLoop[],
    /** Returns milliseconds, Redis's time. */
    now: time.now,
    /** Registers a connection, later if Redis is away. Never throws. */
    register: refresher.register,
    /** Unregisters a connection, later if Redis is away. Never throws. */
    unregister: refresher.unregister,
    /** Sends the result for one recipient. Results close in time share a round trip. */
    reply: replySender.add,
    /** Sends the collected results, then releases the lease. */
    async close(): Promise<void> {
      messages.stop();
      refresher.stop();
      await replySender.flush();
      await lease.release();
      reader.disconnect();
      redis.disconnect();
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
  redis,
  reader,
  lease,
  lagMeter,
  on,
}: {
  redis: Redis;
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
    const key = gatewayStreamKey(currentId);
    const streams = await reader.xread(
      'COUNT',
      ENTRIES_PER_READ,
      'BLOCK',
      lagMeter.isLagging() ? LAGGING_BLOCK_MS : BLOCK_MS,
      'STREAMS',
      key,
      lastId,
    );
    lastProgressAt = performance.now();
    const entries = streams?.[0]?.[1] ?? [];
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
function firstMessageId(entries: readonly [id: string, fields: string[]][]): string | undefined {
  return entries.find(([, fields]) => fields[0] !== 'begin')?.[0];
}

async function handleMessage(fields: readonly string[], on: GatewayEvents): Promise<void> {
  const message = decodeGatewayMessage(fields);
  if (message?.kind === 'deliver') await on.deliver(message.delivery);
  else if (message?.kind === 'drain') for (const token of message.tokens) on.inboxChanged(token);
  else if (message?.kind === 'kick')
    on.kick({ token: message.token, connection: message.connection });
}

/** Returns the id after that of a stream entry. */
function nextEntryId(entryId: string): string {
  const [ms, sequence] = entryId.split('-');
  return `${ms}-${Number(sequence) + 1}`;
}

/** Collects results and sends them at most every 10 ms, one entry per worker. A single result is sent at once. */
function createReplySender(redis: Redis, now: () => number) {
  const resultBatch = createResultBatch();
  const expiry = createDelayedExpiry(redis);
  let timer: NodeJS.Timeout | undefined;
  let flushedAt = 0;

  async function flush(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    flushedAt = performance.now();
    const pipeline = redis.pipeline();
    const minTimestamp = Math.max(0, Math.floor(now() - REPLY_RETENTION_MS)) || 0;
    for (const [stream, fields] of resultBatch.takeAll()) {
      pipeline.xadd(stream, 'MINID', '~', minTimestamp, '*', ...fields);
      expiry.add(stream);
    }
    // A lost result counts as unanswered: the worker dispatches again, and the gateway remembers the delivery.
    if (pipeline.length > 0) await pipeline.exec().catch(() => undefined);
  }

  return {
    flush,
    add(to: ReplyTo, result: DeliveryResult): void {
      resultBatch.add(to, result);
      const delayMs = flushedAt + REPLY_INTERVAL_MS - performance.now();
      timer ??= setTimeout(() => void flush(), Math.max(0, delayMs));
    },
  };
}

/**
 * Sets the expiry of reply streams soon after they were written, all of them in one round trip: a living worker extends
 * its stream's expiry itself, and this covers the stream of a dead one.
 */
function createDelayedExpiry(redis: Redis): { add(stream: string): void } {
  const streams = new Set<string>();
  async function expireAll(): Promise<void> {
    const pipeline = redis.pipeline();
    for (const stream of streams) pipeline.expire(stream, TTL_SECONDS.replies);
    streams.clear();
    await pipeline.exec().catch(() => undefined);
  }
  return {
    add(stream) {
      if (streams.size === 0) setTimeout(() => void expireAll(), EXPIRE_DELAY_MS).unref();
      streams.add(stream);
    },
  };
}
