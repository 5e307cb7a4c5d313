import { startInterval } from '@carillon/core/intervals';
import { describeRedisUrl, parseRedisUrl } from '@carillon/core/redis-url';
import { resultWithin, withTimeout } from '@carillon/core/with-timeout';
import { Cluster, type Redis as RedisServer } from 'ioredis';
import {
  CONNECT_TIMEOUT_MS,
  createClient,
  type RedisProfile,
  type RedisSettings,
} from './redis-clients.ts';

/** A connection to one server, to the primary that Sentinels name, or to a cluster. */
export type Redis = RedisServer | Cluster;

/** Address of a Redis. */
export interface RedisAddress {
  /** Address of a server, of Sentinels or of a cluster (core/redis-url). */
  url: string;
  /** Certificate of the authority that signed the server's certificate, PEM; the public authorities if absent. */
  ca?: string | undefined;
}

/** Receives the errors of a connection. They are reported, not thrown: the data are in MongoDB. */
export type OnRedisError = (error: Error) => void;

/** Maximum time for which a blocking XREAD waits in Redis. */
export const BLOCK_MS = 1_000;

/** Maximum wait for a new connection to become ready. */
const INITIAL_WAIT_MS = 2_000;
/** Maximum delay between two reconnects. */
const MAX_RETRY_DELAY_MS = 1_000;
/**
 * Maximum wait while Redis loads its data. The library waits as long as Redis estimates, up to ten seconds. The
 * estimate is in whole seconds, so it is far too long for a fast start that crosses a second.
 */
const LOADING: RedisSettings = { maxLoadingRetryTime: MAX_RETRY_DELAY_MS };

/** Returns the delay between reconnects: 50 ms, doubling to 1 s, with jitter, because all processes lose Redis together. */
function retryDelayMs(attempt: number): number {
  const delay = Math.min(50 * 2 ** attempt, MAX_RETRY_DELAY_MS);
  return delay / 2 + (Math.random() * delay) / 2;
}

/**
 * Interval between two pings of a connection that may be idle. A suspended server closes no connection, and without a
 * command in flight there is no timeout: the process would notice seconds after the next command. A cluster's client
 * needs no pings, because it reads the slots regularly.
 */
const PING_INTERVAL_MS = 5_000;

/**
 * Settings with which commands fail at once while Redis is known to be unavailable; none is repeated after a reconnect.
 */
const FAIL_FAST: RedisSettings = {
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 1,
};

/** Timeout of a diagnosis, beyond every limit of its callers. */
const DIAGNOSIS_MS = 60_000;

/**
 * Settings of a connection by its use. A command timeout leaves the connection open; `socketTimeout` replaces a
 * connection whose peer vanished, which the kernel would keep for a quarter of an hour.
 */
const PROFILES: Record<RedisProfile, RedisSettings> = {
  /** Presence and counters: a command fails within 1 s if Redis is frozen. */
  command: { ...FAIL_FAST, commandTimeout: 1_000, socketTimeout: 5_000 },
  /** XREAD with BLOCK: the timeouts exceed the time for which Redis blocks. */
  blocking: { ...FAIL_FAST, commandTimeout: BLOCK_MS + 2_000, socketTimeout: BLOCK_MS + 4_000 },
  /** Adding jobs: a request waits for it, so it fails within half a second; the reconciler adds the job later. */
  producer: {
    ...FAIL_FAST,
    // Commands in flight are resent after a reconnect: adding a job twice is harmless.
    autoResendUnfulfilledCommands: true,
    commandTimeout: 500,
    socketTimeout: 5_000,
  },
  /** BullMQ workers: BullMQ requires unlimited retries, and its blocking reads last 5 s. */
  worker: { maxRetriesPerRequest: null, socketTimeout: 10_000 },
  /** One attempt of a diagnosis: no reconnect, no retry. */
  probe: {
    lazyConnect: true,
    commandTimeout: 2_000,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
  },
  /** The same without a limit of its own: the caller tells a slow server from one that can't be reached. */
  diagnosis: {
    ...{ lazyConnect: true, maxRetriesPerRequest: 0, retryStrategy: () => null },
    connectTimeout: DIAGNOSIS_MS,
    // A silent server does not end its side of the connection.
    disconnectTimeout: 1,
    // One answer makes the connection ready, so that its time can be measured.
    enableReadyCheck: false,
  },
};

/** Codes of the errors of a certificate that no trusted authority has signed, or that is another server's. */
const UNTRUSTED =
  /^(SELF_SIGNED_CERT_IN_CHAIN|DEPTH_ZERO_SELF_SIGNED_CERT|UNABLE_TO_\w+|CERT_\w+|ERR_TLS_CERT_ALTNAME_INVALID)$/;

/** Names the setting for an error of the server's certificate: the library's text does not say whose it is. */
function explainError(error: Error, { url, ca }: RedisAddress): Error {
  if (!('code' in error) || !UNTRUSTED.test(String(error.code))) return error;
  const authority = ca === undefined ? 'a public authority' : 'the authority of REDIS_CA_FILE';
  // Without its cause, which the doctor would name in its place.
  return new Error(
    `the certificate of Redis at ${describeRedisUrl(url)} is not verified by ${authority}: ${error.message}`,
  );
}

/** A primary that a failover has made a replica: the connection goes to the new one, and the command with it. */
function reconnectOnError({ message }: Error): 2 | false {
  return message.startsWith('READONLY') && 2;
}

/** Creates a connection, which reconnects by itself except with `probe`. */
export function createRedis(
  address: RedisAddress,
  profile: RedisProfile,
  onError: OnRedisError,
): Redis {
  const settings: RedisSettings = {
    connectTimeout: CONNECT_TIMEOUT_MS,
    retryStrategy: retryDelayMs,
    ...LOADING,
    ...(profile !== 'probe' && profile !== 'diagnosis' && { reconnectOnError }),
    ...PROFILES[profile],
  };
  const target = parseRedisUrl(address.url);
  const redis = createClient(target, settings, address.ca);
  const explain = (error: Error): void => onError(explainError(error, address));
  const report = target.kind === 'server' ? explain : atMostOnceASecond(explain);
  // Without a listener an error would end the process. Those of a cluster's nodes have an event of their own.
  redis.on('error', report);
  // The others always have a command in flight, or one every few seconds.
  const mayBeIdle = profile === 'command' || profile === 'producer';
  if (redis instanceof Cluster) {
    redis.on('node error', report);
    // A worker needs the node of its queue only.
    if (mayBeIdle) connectToPrimaries(redis);
  } else if (mayBeIdle) pingRegularly(redis);
  return redis;
}

/** Pings the server of a connection, so that the timeout of its socket applies while it is idle, too. */
function pingRegularly(redis: RedisServer): void {
  const ping = (): void => {
    if (redis.status === 'ready') redis.ping().catch(() => undefined);
  };
  redis.once('end', startInterval(ping, PING_INTERVAL_MS));
}

/** Connects to each primary before the first command to it, which would wait for the connection, or fail. */
function connectToPrimaries(cluster: Cluster): void {
  const connect = (): void => {
    for (const node of cluster.nodes('master'))
      if (node.status === 'wait') node.connect().catch(() => undefined);
  };
  cluster.on('ready', connect);
  cluster.on('+node', () => {
    if (cluster.status === 'ready') connect();
  });
}

/** Sentinels, and the nodes of a cluster, are queried several times a second while a server is unavailable. */
function atMostOnceASecond(onError: OnRedisError): OnRedisError {
  let reportedAt = Number.NEGATIVE_INFINITY;
  return (error) => {
    if (performance.now() - reportedAt < MAX_RETRY_DELAY_MS) return;
    reportedAt = performance.now();
    onError(error);
  };
}

/**
 * Queries a Redis over a connection of its own, once it has loaded its data.
 *
 * @throws the cause, within about `timeoutMs`
 */
export async function probeRedis<T>(
  address: RedisAddress,
  query: (redis: Redis) => Promise<T>,
  timeoutMs = INITIAL_WAIT_MS,
): Promise<T> {
  return queryOnce(address, 'probe', (redis, connecting) =>
    withTimeout(
      connecting.then(() => query(redis)),
      timeoutMs,
      'Redis',
    ),
  );
}

/**
 * Queries a Redis over a connection of its own, without a limit.
 *
 * @param signal ends the query
 * @param answered is called when the server has answered the first time
 * @throws the cause
 */
export function diagnoseRedis<T>(
  address: RedisAddress,
  query: (redis: Redis) => Promise<T>,
  { signal, answered = () => undefined }: { signal: AbortSignal; answered?: () => void },
): Promise<T> {
  return queryOnce(address, 'diagnosis', (redis, connecting) => {
    signal.addEventListener('abort', () => redis.disconnect());
    return connecting.then(() => {
      answered();
      return query(redis);
    });
  });
}

async function queryOnce<T>(
  address: RedisAddress,
  profile: 'probe' | 'diagnosis',
  run: (redis: Redis, connecting: Promise<void>) => Promise<T>,
): Promise<T> {
  let connectionError: Error | undefined;
  const redis = createRedis(address, profile, (error) => {
    connectionError = error;
  });
  try {
    return await run(redis, redis.connect());
  } catch (error) {
    // The call's own error says only that the connection is closed.
    throw connectionError ?? error;
  } finally {
    redis.disconnect();
  }
}

/**
 * Checks that Redis responds, and that it runs scripts, without which no queue works and no single device is found.
 *
 * @throws the cause, within about 2 s
 */
export async function pingRedis(address: RedisAddress): Promise<void> {
  await probeRedis(address, (redis) => redis.eval('return 1', 0));
}

/** Key that nothing reads. */
const WRITE_PROBE_KEY = 'probe:write';
/** TTL of the key that the write probe sets. */
const WRITE_PROBE_MS = 1_000;

/** Returns arguments of a SET that a Redis rejects while it takes no writes: its memory or the disk of its log is full. */
export function writeProbe(key = WRITE_PROBE_KEY) {
  return [key, 1, 'PX', WRITE_PROBE_MS] as const;
}

/**
 * Checks that a Redis responds and takes writes. Throws the cause, within about 2 s.
 *
 * @param key is written: in a cluster it decides which node is checked
 */
export async function assertRedisWritable(address: RedisAddress, key?: string): Promise<void> {
  await probeRedis(address, (redis) => redis.set(...writeProbe(key)));
}

/**
 * Creates a connection for presence. Resolves when it is connected, or after 2 s without: a service starts even if
 * Redis is unavailable. Errors are not reported, because each failed command throws.
 */
export async function connectRedis(
  address: RedisAddress,
  profile: 'command' | 'blocking' = 'command',
): Promise<Redis> {
  const redis = createRedis(address, profile, () => undefined);
  const ready = new Promise<void>((resolve) => redis.once('ready', () => resolve()));
  await resultWithin(
    // A reader connects to the node of its stream with its first read.
    ready.then(() => (profile === 'command' ? waitForPrimaries(redis) : undefined)),
    INITIAL_WAIT_MS,
    undefined,
  );
  return redis;
}

/** Waits for the connections to all primaries of a cluster; one that can't be reached is left out. */
async function waitForPrimaries(redis: Redis): Promise<void> {
  if (!(redis instanceof Cluster)) return;
  const connecting = redis.nodes('master').filter(({ status }) => status !== 'ready');
  await Promise.all(
    connecting.map(
      (node) =>
        new Promise<void>((resolve) => {
          node.once('ready', () => resolve());
          node.once('end', () => resolve());
        }),
    ),
  );
}

/**
 * Returns the hash tag that keeps the keys of a group in one slot of a cluster, so that one script or pipeline can use them;
 * undefined without a cluster.
 */
export function hashTag(redis: Redis, group: string): string | undefined {
  return redis instanceof Cluster ? `{${group}}` : undefined;
}

/** An entry of a stream: its id, and alternating names and values. */
export type StreamEntry = [id: string, fields: string[]];

/**
 * Reads the entries of a stream after `lastId` over a connection of its own, and waits up to `blockMs` for the first one.
 *
 * @throws if Redis fails
 */
export async function readStream(
  reader: Redis,
  key: string,
  lastId: string,
  { count, blockMs }: { count: number; blockMs: number },
): Promise<StreamEntry[]> {
  const streams = await reader.xread('COUNT', count, 'BLOCK', blockMs, 'STREAMS', key, lastId);
  return streams?.[0]?.[1] ?? [];
}
