import { processCounts } from '@carillon/core/process-counts';
import type { RedisTarget } from '@carillon/core/redis-url';
import { Cluster, type ClusterOptions, type Command, Redis, type RedisOptions } from 'ioredis';

/** Use of a connection, which decides its settings. */
export type RedisProfile = 'command' | 'blocking' | 'producer' | 'worker' | 'probe' | 'diagnosis';

/** ioredis declares `replyMapping` separately in its constructors. */
export type RedisSettings = Omit<RedisOptions, 'replyMapping'>;

type NodeSettings = Omit<NonNullable<ClusterOptions['redisOptions']>, 'replyMapping'>;
type ClusterSettings = Omit<ClusterOptions, 'redisOptions'> & { redisOptions: NodeSettings };

/** Maximum wait for a connection. */
export const CONNECT_TIMEOUT_MS = 2_000;

/** A command of the library, marked once its failure would be counted. */
type WatchedCommand = Command & { isWatched?: true };

/**
 * Leaves a server that accepts a connection and does not respond, so that the next attempt finds the primary that has replaced
 * it: one that is silent for longer than a connect may take is suspended or overloaded. The library's timeout of the socket
 * also has to exceed the longest blocking read.
 */
function leaveSilentServer<Client extends Redis>(redis: Client): Client {
  redis.on('connect', () => {
    const { stream, options } = redis;
    const { connectTimeout: firstResponseMs = CONNECT_TIMEOUT_MS } = options;
    let isSilent = true;
    const leave = (): void => {
      const seconds = firstResponseMs / 1_000;
      const reason = `the server has accepted the connection and not responded within ${seconds} s`;
      if (isSilent) stream.destroy(new Error(reason));
    };
    // After a pause of the process a response may have arrived that was not read yet.
    const timer = setTimeout(() => setImmediate(leave), firstResponseMs);
    const clear = (): void => {
      isSilent = false;
      clearTimeout(timer);
    };
    stream.once('data', clear).once('close', clear);
  });
  return redis;
}

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
    const options: RedisSettings = { ...this.options, ...override };
    return leaveSilentServer(new CountingRedis(options));
  }
}

/** The same for a cluster: a command that follows its slot to another node has not failed. */
class CountingCluster extends Cluster {
  readonly #nodes: ConstructorParameters<typeof Cluster>[0];

  constructor(nodes: ConstructorParameters<typeof Cluster>[0], options: ClusterSettings) {
    super(nodes, options);
    this.#nodes = nodes;
    this.on('+node', leaveSilentServer);
  }

  /**
   * Connects. During a failover the first node may say that the cluster is failing. The library then connects again and
   * never settles the wait for the first attempt, so a worker of BullMQ would wait without end.
   *
   * @throws Error when it does not connect again
   */
  override connect(): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const end = (): void => reject(new Error('the connection to the cluster has ended'));
    this.once('ready', resolve);
    this.once('end', end);
    super.connect().then(resolve, reject);
    return promise.finally(() => {
      this.off('ready', resolve);
      this.off('end', end);
    });
  }

  override sendCommand(...[command, stream, node]: Parameters<Cluster['sendCommand']>): unknown {
    if (!(command as WatchedCommand).isWatched) watchCommand(command);
    return super.sendCommand(command, stream, node);
  }

  /** BullMQ reads over a copy of its connection. */
  override duplicate(_nodes?: unknown, override?: ClusterOptions): Cluster {
    const redisOptions = { ...this.options.redisOptions, ...override?.redisOptions };
    return new CountingCluster(this.#nodes, { ...this.options, ...override, redisOptions });
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

/** Maximum wait for a Sentinel's response; after it the Sentinel is skipped. */
const SENTINEL_TIMEOUT_MS = 1_000;

/** Creates the client of a target. It connects at once unless `lazyConnect` is set. */
export function createClient(
  target: RedisTarget,
  settings: RedisSettings,
  ca: string | undefined,
): Redis | Cluster {
  const { isTls } = target;
  const tls = ca === undefined ? {} : { ca };
  switch (target.kind) {
    case 'server':
      // Without rediss://, the option alone would turn TLS on.
      return leaveSilentServer(
        new CountingRedis(target.url, { ...(isTls && { tls }), ...settings }),
      );
    case 'sentinel': {
      const { sentinelCredentials } = target;
      const options: RedisSettings = {
        ...settings,
        ...target.credentials,
        sentinels: [...target.hosts],
        name: target.name,
        db: target.db,
        sentinelCommandTimeout: SENTINEL_TIMEOUT_MS,
        // Without a delay the connection would end for good once no Sentinel responds.
        ...(settings.retryStrategy && { sentinelRetryStrategy: settings.retryStrategy }),
        ...(isTls && { tls, sentinelTLS: tls, enableTLSForSentinelMode: true }),
        ...(sentinelCredentials.username && { sentinelUsername: sentinelCredentials.username }),
        ...(sentinelCredentials.password && { sentinelPassword: sentinelCredentials.password }),
      };
      return leaveSilentServer(new CountingRedis(options));
    }
    case 'cluster':
      return new CountingCluster([...target.hosts], {
        ...clusterOptions(settings),
        redisOptions: {
          ...withoutClusterSettings(settings),
          ...target.credentials,
          ...(isTls && { tls }),
        },
      });
  }
}

/**
 * Maximum redirections of a command. It follows its slot, and waits for a replica to be promoted, until its own
 * timeout; a worker's command has no timeout.
 */
const MAX_REDIRECTIONS = 16;
const WORKER_REDIRECTIONS = 300;
const REDIRECTION_DELAY_MS = 100;
/** Delay after the response TRYAGAIN, which some commands get while their slot is being moved. */
const TRY_AGAIN_DELAY_MS = 20;
/** Timeout of a read of the slots. */
const SLOTS_TIMEOUT_MS = 2_000;
/**
 * Interval between two reads of the slots, which redirections cause too: a suspended node redirects nothing. A worker
 * has many clients and notices a suspended node by its socket's timeout.
 */
const SLOTS_INTERVAL_MS = 5_000;
const WORKER_SLOTS_INTERVAL_MS = 30_000;

function clusterOptions({
  enableOfflineQueue,
  lazyConnect,
  maxRetriesPerRequest,
  retryStrategy,
}: RedisSettings): Omit<ClusterSettings, 'redisOptions'> {
  const isWorker = maxRetriesPerRequest === null;
  return {
    clusterRetryStrategy: retryStrategy ?? null,
    ...(enableOfflineQueue !== undefined && { enableOfflineQueue }),
    ...(lazyConnect !== undefined && { lazyConnect }),
    maxRedirections: isWorker ? WORKER_REDIRECTIONS : MAX_REDIRECTIONS,
    retryDelayOnFailover: REDIRECTION_DELAY_MS,
    retryDelayOnClusterDown: REDIRECTION_DELAY_MS,
    retryDelayOnTryAgain: TRY_AGAIN_DELAY_MS,
    slotsRefreshTimeout: SLOTS_TIMEOUT_MS,
    slotsRefreshInterval: isWorker ? WORKER_SLOTS_INTERVAL_MS : SLOTS_INTERVAL_MS,
    // Names are resolved at each connect: a node keeps its name and not its address, and its certificate has the name.
    dnsLookup: (name, callback) => callback(null, name),
  };
}

/** A node's connection ends when it breaks; the cluster connects again. */
function withoutClusterSettings({
  enableOfflineQueue: _queue,
  retryStrategy: _retry,
  lazyConnect: _lazy,
  ...settings
}: RedisSettings): NodeSettings {
  return settings;
}

/** Creates the client of one server of several, host:port. The settings may have its user and password. */
export function createServerClient(
  { isTls }: Pick<RedisTarget, 'isTls'>,
  address: string,
  settings: RedisSettings,
  ca: string | undefined,
): Redis {
  const colon = address.lastIndexOf(':');
  const options: RedisSettings = {
    ...settings,
    host: address.slice(0, colon),
    port: Number(address.slice(colon + 1)),
    ...(isTls && { tls: ca === undefined ? {} : { ca } }),
  };
  return leaveSilentServer(new CountingRedis(options));
}
