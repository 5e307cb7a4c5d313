import { processCounts } from '@carillon/core/process-counts';
import { resultWithin, withTimeout } from '@carillon/core/with-timeout';
import { type Command, Redis, type RedisOptions } from 'ioredis';

export type { Redis } from 'ioredis';

/** Where a Redis is. */
export interface RedisAddress {
  /** redis://host:port, or rediss://host:port for TLS. */
  url: string;
  /** Certificate of the authority that signed the server's certificate, PEM; absent: the public authorities. */
  ca?: string | undefined;
}

/** Receives the errors of a connection. They are reported, not thrown: the data are in MongoDB. */
export type OnRedisError = (error: Error) => void;

/** Maximum time for which a blocking XREAD waits in Redis. */
export const BLOCK_MS = 1_000;

const CONNECT_TIMEOUT_MS = 2_000;
const INITIAL_WAIT_MS = 2_000;
const MAX_RETRY_DELAY_MS = 1_000;

/** Returns the delay between reconnects: 50 ms, doubling to 1 s, with jitter, because all processes lose Redis together. */
function retryDelayMs(attempt: number): number {
  const delay = Math.min(50 * 2 ** attempt, MAX_RETRY_DELAY_MS);
  return delay / 2 + (Math.random() * delay) / 2;
}

/** Use of a connection, which decides its settings. */
export type RedisProfile = 'command' | 'blocking' | 'producer' | 'worker' | 'probe';

/** ioredis declares `replyMapping` separately in its constructors. */
type Settings = Omit<RedisOptions, 'replyMapping'>;

/** Commands fail at once while Redis is known to be away; none is repeated after a reconnect. */
const FAIL_FAST: Settings = {
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 1,
};

/**
 * Settings of a connection by its use. A command timeout leaves the connection open; `socketTimeout` replaces a
 * connection whose peer vanished, which the kernel would keep for a quarter of an hour.
 */
const PROFILES: Record<RedisProfile, Settings> = {
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
    `the certificate of Redis at ${new URL(url).host} is not verified by ${authority}: ${error.message}`,
  );
}

/** A command of the library, marked once its failure would be counted. */
type WatchedCommand = Command & { isWatched?: true };

/**
 * A connection that counts the commands that fail. It replaces the function that rejects a command, so that a command
 * that succeeds costs no more than the function.
 */
class CountingRedis extends Redis {
  override sendCommand(...[command, stream]: Parameters<Redis['sendCommand']>): unknown {
    // A command passes here again when the connection is back.
    if (!(command as WatchedCommand).isWatched) watchCommand(command);
    return super.sendCommand(command, stream);
  }

  /** BullMQ reads over a copy of its connection. */
  override duplicate(override?: Partial<RedisOptions>): Redis {
    const options: Settings = { ...this.options, ...override };
    return new CountingRedis(options);
  }
}

function watchCommand(command: WatchedCommand): void {
  command.isWatched = true;
  const { reject } = command;
  command.reject = (error) => {
    if (!isScriptMissing(error)) processCounts.redisCommandFailures += 1;
    reject(error);
  };
}

/** Checks for the reply to a script that is not loaded yet: the library then sends it. */
function isScriptMissing(error: Error): boolean {
  return error.message.startsWith('NOSCRIPT');
}

/** Creates a connection, which reconnects by itself except with `probe`. */
export function createRedis(
  address: RedisAddress,
  profile: RedisProfile,
  onError: OnRedisError,
): Redis {
  const { url, ca } = address;
  const options: Settings = {
    // Without rediss://, the option alone would turn TLS on.
    ...(ca !== undefined && url.startsWith('rediss:') && { tls: { ca } }),
    connectTimeout: CONNECT_TIMEOUT_MS,
    retryStrategy: retryDelayMs,
    ...PROFILES[profile],
  };
  const redis = new CountingRedis(url, options);
  // Without a listener an error would end the process.
  redis.on('error', (error) => onError(explainError(error, address)));
  return redis;
}

/**
 * Checks whether one server holds all keys, so that a script may use keys of several hash slots, also keys that it finds in
 * a value. Such scripts are used only where this is true, and nothing else decides it.
 */
export function hasSingleServer(redis: Redis): boolean {
  return !redis.isCluster;
}

/** Checks whether Redis does not run a script at all: it denies scripts, or keys are spread over several servers after all. */
export function isScriptRefusal(message: string): boolean {
  return /^(NOPERM|CROSSSLOT|MOVED|ASK) |^ERR .*(unknown command|script)/i.test(message);
}

/**
 * Asks a Redis over a connection of its own, once it has loaded its data.
 *
 * @throws the cause, within about 2 s
 */
export async function probeRedis<T>(
  address: RedisAddress,
  ask: (redis: Redis) => Promise<T>,
): Promise<T> {
  let connectionError: Error | undefined;
  const redis = createRedis(address, 'probe', (error) => {
    connectionError = error;
  });
  try {
    const answer = redis.connect().then(() => ask(redis));
    return await withTimeout(answer, INITIAL_WAIT_MS, 'Redis');
  } catch (error) {
    // The call's own error says only that the connection is closed.
    throw connectionError ?? error;
  } finally {
    redis.disconnect();
  }
}

/** Checks that a Redis responds. Throws the cause, within about 2 s. */
export async function pingRedis(address: RedisAddress): Promise<void> {
  await probeRedis(address, (redis) => redis.ping());
}

/** A key that nothing reads. */
const WRITE_PROBE_KEY = 'probe:write';
const WRITE_PROBE_MS = 1_000;

/** Arguments of the SET that a Redis rejects while it takes no writes: its memory or the disk of its log is full. */
export const WRITE_PROBE = [WRITE_PROBE_KEY, 1, 'PX', WRITE_PROBE_MS] as const;

/** Checks that a Redis responds and takes writes. Throws the cause, within about 2 s. */
export async function assertRedisWritable(address: RedisAddress): Promise<void> {
  await probeRedis(address, (redis) => redis.set(...WRITE_PROBE));
}

/**
 * Creates a connection for presence. Resolves when it is connected, or after 2 s without: a service starts even if
 * Redis is away. Errors are not reported, because each failed command throws.
 */
export async function connectRedis(
  address: RedisAddress,
  profile: 'command' | 'blocking' = 'command',
): Promise<Redis> {
  const redis = createRedis(address, profile, () => undefined);
  const ready = new Promise<void>((resolve) => redis.once('ready', () => resolve()));
  await resultWithin(ready, INITIAL_WAIT_MS, undefined);
  return redis;
}

/** Creates two connections for presence: one for commands, and one for blocking reads. */
export async function connectWithReader(
  address: RedisAddress,
): Promise<{ redis: Redis; reader: Redis }> {
  const [redis, reader] = await Promise.all([
    connectRedis(address),
    connectRedis(address, 'blocking'),
  ]);
  return { redis, reader };
}
