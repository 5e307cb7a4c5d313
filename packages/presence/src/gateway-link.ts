import { setTimeout as sleep } from 'node:timers/promises';
import { createAnnouncing } from './announcing.ts';
import { type HandedOver, readEntry } from './hand-over-entries.ts';
import { handOverKey, TTL } from './keys.ts';
import { createLease, type Lease } from './lease.ts';
import { createPlaces, type Link } from './places.ts';
import { BLOCK_MS, connectRedis, type Redis } from './redis.ts';
import { createRedisTime } from './redis-time.ts';
import { type Answer, createReplyBook } from './replies.ts';

export type { HandedOver } from './hand-over-entries.ts';
export type { Link } from './places.ts';
export type { Answer } from './replies.ts';

const REPLY_EVERY_MS = 10;
const REPLIES_KEPT_MS = 60_000;
const ENTRIES_PER_READ = 16;
const RETRY_MS = 200;
/** Hand-overs that waited so long are close to their deadline: workers are asked to hold back. */
const LAGGING_MS = 400;
/** Workers that were asked to hold back fill no stream: an empty one is seen soon, not after a whole wait. */
const CATCHING_UP_MS = 50;

/** For whom an answer is. */
export interface Addressee {
  reply: string;
  work: string;
  claim: string;
  position: number;
}

/** What a gateway does with what comes from Redis. */
export interface GatewayEvents {
  /** Nothing more is read until it resolves: that is how a gateway that can't keep up holds back. */
  deliver(delivery: HandedOver): Promise<void>;
  /** A row was written for this device. */
  drain(token: string): void;
  /** The device has connected somewhere else. */
  kick(link: Link): void;
  /** Announced late or again; meanwhile the device looked offline, so its inbox must be read. */
  announced(link: Link): void;
  links(): Iterable<Link>;
  isHere(link: Link): boolean;
  /** Recipients that may be handed over now. */
  credit(): number;
}

/** The gateway's side of presence and hand-over. */
export interface GatewayLink {
  /** Whether workers can see this gateway. */
  isHeld(): boolean;
  /** Milliseconds, Redis's time. */
  now(): number;
  /** Never throws; while Redis is away it is done later. */
  announce(link: Link): Promise<void>;
  /** Never throws; while Redis is away it is done later. */
  withdraw(link: Link): Promise<void>;
  /** Answers for one recipient; answers close in time travel together. */
  answer(to: Addressee, answer: Answer): void;
  /** Sends what was answered, then gives the identity up. */
  close(): Promise<void>;
}

/** Connects a gateway; while Redis is away devices are served all the same, from MongoDB. */
export async function createGatewayLink(url: string, on: GatewayEvents): Promise<GatewayLink> {
  const [redis, reader] = await Promise.all([connectRedis(url), connectRedis(url, 'blocking')]);
  const time = createRedisTime(redis);
  await time.sample().catch(() => undefined);

  const lag = createLag(time.now);
  const places = createPlaces(redis, { gateway: () => lease.id(), isHere: on.isHere });
  const announcing = createAnnouncing(places, { ...on, elsewhere: on.kick });
  const lease = createLease(redis, {
    credit: () => (lag.isTooLong() ? 0 : on.credit()),
    beat: () => void time.sample().catch(() => undefined),
    identity: announcing.announceAll,
  });
  const stopReading = followHandOvers({ redis, reader, lease, lag, on });
  const answers = createAnswering(redis, time.now);

  return {
    isHeld: () => lease.id() !== undefined,
    now: time.now,
    announce: announcing.announce,
    withdraw: announcing.withdraw,
    answer: answers.add,
    async close() {
      stopReading();
      announcing.stop();
      await answers.flush();
      await lease.end();
      reader.disconnect();
      redis.disconnect();
    },
  };
}

interface Lag {
  isTooLong(): boolean;
  /** Takes the id of the first entry of a read; true when the answer has changed. */
  note(entryId?: string): boolean;
}

/** How far behind the reader of a stream is: an entry's id begins with Redis's time when it was added. */
function createLag(now: () => number): Lag {
  let isTooLong = false;
  return {
    isTooLong: () => isTooLong,
    note(entryId = '') {
      const before = isTooLong;
      isTooLong = now() - Number.parseInt(entryId, 10) > LAGGING_MS;
      return isTooLong !== before;
    },
  };
}

/** Reads the stream of the present identity and trims what is done. */
function followHandOvers(deps: {
  redis: Redis;
  reader: Redis;
  lease: Lease;
  lag: Lag;
  on: GatewayEvents;
}): () => void {
  const { redis, reader, lease, lag, on } = deps;
  let stopped = false;
  let id: string | undefined;
  let last = '0-0';

  async function readOnce(): Promise<void> {
    const present = lease.id();
    if (present === undefined) return void (await sleep(RETRY_MS));
    if (present !== id) last = '0-0';
    id = present;
    const key = handOverKey(present);
    const streams = await reader.xread(
      'COUNT',
      ENTRIES_PER_READ,
      'BLOCK',
      lag.isTooLong() ? CATCHING_UP_MS : BLOCK_MS,
      'STREAMS',
      key,
      last,
    );
    const entries = streams?.[0]?.[1] ?? [];
    // Workers learn at once that they should hold back, or need not any more.
    if (lag.note(oldestWaiting(entries))) void lease.renew().catch(() => undefined);
    for (const [entryId, fields] of entries) {
      last = entryId;
      await take(fields, on);
    }
    if (entries.length > 0) void redis.xtrim(key, 'MINID', after(last)).catch(() => 0);
  }

  async function follow(): Promise<void> {
    while (!stopped) {
      await readOnce().catch(() => (stopped ? undefined : sleep(RETRY_MS)));
    }
  }

  void follow();
  return () => {
    stopped = true;
  };
}

/** The id of the first entry that somebody waits for; the mark at a stream's beginning is as old as the lease. */
function oldestWaiting(entries: readonly [id: string, fields: string[]][]): string | undefined {
  return entries.find(([, fields]) => fields[0] !== 'begin')?.[0];
}

async function take(fields: readonly string[], on: GatewayEvents): Promise<void> {
  const entry = readEntry(fields);
  if (entry?.kind === 'deliver') await on.deliver(entry.delivery);
  else if (entry?.kind === 'drain') for (const token of entry.tokens) on.drain(token);
  else if (entry?.kind === 'kick') on.kick({ token: entry.token, connection: entry.connection });
}

/** The id right behind a stream entry's. */
function after(entryId: string): string {
  const [ms, sequence] = entryId.split('-');
  return `${ms}-${Number(sequence) + 1}`;
}

/** Gathers answers and sends them every 10 ms at most, one entry for each worker; a lone answer goes at once. */
function createAnswering(redis: Redis, now: () => number) {
  const book = createReplyBook();
  let timer: NodeJS.Timeout | undefined;
  let flushedAt = 0;

  async function flush(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    flushedAt = performance.now();
    const pipeline = redis.pipeline();
    const oldest = Math.max(0, Math.floor(now() - REPLIES_KEPT_MS)) || 0;
    for (const [stream, fields] of book.take()) {
      pipeline.xadd(stream, 'MINID', '~', oldest, '*', ...fields);
      // The worker renews it while it lives; this is for the stream of one that died.
      pipeline.expire(stream, TTL.replies);
    }
    // An answer that is lost counts as none: the worker hands over again, and the gateway remembers.
    if (pipeline.length > 0) await pipeline.exec().catch(() => undefined);
  }

  return {
    flush,
    add(to: Addressee, answer: Answer): void {
      book.add(to, answer);
      const restMs = flushedAt + REPLY_EVERY_MS - performance.now();
      timer ??= setTimeout(() => void flush(), Math.max(0, restMs));
    },
  };
}
