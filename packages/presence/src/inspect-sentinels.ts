import type { RedisTarget } from '@carillon/core/redis-url';
import type { Redis as RedisServer } from 'ioredis';
import type { RedisAddress } from './redis.ts';
import { createServerClient, type RedisSettings } from './redis-clients.ts';
import type { ReadNode, RedisTopology } from './redis-topology.ts';

type SentinelTarget = Extract<RedisTarget, { kind: 'sentinel' }>;

/** Maximum `down-after-milliseconds`: with a longer one a failover takes more than ten seconds. */
const MAX_DOWN_AFTER_MS = 5_000;
const MIN_SENTINELS = 3;
const SETTINGS: RedisSettings = {
  lazyConnect: true,
  connectTimeout: 2_000,
  commandTimeout: 2_000,
  maxRetriesPerRequest: 0,
  enableReadyCheck: false,
  retryStrategy: () => null,
};

/** A primary or a replica, as a Sentinel describes it. */
type Described = ReadonlyMap<string, string>;

/** Queries a Sentinel for its primaries, and each server that it names. */
export async function inspectSentinels(
  target: SentinelTarget,
  { ca }: RedisAddress,
  readNode: ReadNode,
): Promise<Omit<RedisTopology, 'kind'>> {
  const { name, hosts, sentinelCredentials, credentials } = target;
  const connect = (address: string, own: object) =>
    createServerClient(target, address, { ...SETTINGS, ...own }, ca);
  const { primary, replicas, quorumFault } = await queryAny(
    hosts.map(({ host, port }) => connect(`${host}:${port}`, sentinelCredentials)),
    (sentinel) => querySentinel(sentinel, name),
  );
  const online = replicas.filter((replica) => !isDown(replica));
  const nodes = await Promise.all(
    [primary, ...online].map((described) => {
      const address = addressOf(described);
      return queryServer(connect(address, credentials), (redis) => readNode(redis, address));
    }),
  );
  const sentinels = Number(primary.get('num-other-sentinels')) + 1;
  const downAfterMs = Number(primary.get('down-after-milliseconds'));
  const faults = [
    online.length === 0 && `${name} has no replica that is online`,
    sentinels < MIN_SENTINELS && `${sentinels} Sentinels; ${MIN_SENTINELS} agree when one is gone`,
    quorumFault,
    downAfterMs > MAX_DOWN_AFTER_MS &&
      `down-after-milliseconds is ${downAfterMs}; set it to 3000, or a failover takes longer than 10 s`,
  ];
  return {
    summary: `primary ${addressOf(primary)} of ${name}, with ${count(online.length, 'replica')} and ${count(sentinels, 'Sentinel')}`,
    nodes,
    failoverFaults: faults.filter((fault) => typeof fault === 'string'),
  };
}

async function querySentinel(sentinel: RedisServer, name: string) {
  const primary = toMap(await sentinel.call('SENTINEL', 'MASTER', name));
  const replicas = (await sentinel.call('SENTINEL', 'REPLICAS', name)) as unknown[];
  const quorum = await sentinel
    .call('SENTINEL', 'CKQUORUM', name)
    .then(String, ({ message }: Error) => message);
  return {
    primary,
    replicas: replicas.map(toMap),
    quorumFault: quorum.startsWith('OK') ? undefined : quorum,
  };
}

/** Queries one server after the other. Throws the error of the last one. */
async function queryAny<T>(
  servers: readonly RedisServer[],
  query: (redis: RedisServer) => Promise<T>,
): Promise<T> {
  let failure: unknown;
  for (const server of servers) {
    try {
      return await queryServer(server, query);
    } catch (error) {
      failure = error;
    }
  }
  throw failure;
}

async function queryServer<T>(
  server: RedisServer,
  query: (redis: RedisServer) => Promise<T>,
): Promise<T> {
  server.on('error', () => undefined);
  try {
    await server.connect();
    return await query(server);
  } finally {
    server.disconnect();
  }
}

/** Converts a reply of names and values in turn. */
function toMap(reply: unknown): Described {
  const texts = (reply as unknown[]).map(String);
  return new Map(
    texts.flatMap((text, index) => (index % 2 === 0 ? [[text, texts[index + 1] ?? '']] : [])),
  );
}

function isDown(described: Described): boolean {
  return (
    /s_down|o_down|disconnected/.test(described.get('flags') ?? '') ||
    described.get('master-link-status') === 'err'
  );
}

function addressOf(described: Described): string {
  return `${described.get('ip')}:${described.get('port')}`;
}

function count(n: number, noun: string): string {
  return `${n} ${noun}${n === 1 ? '' : 's'}`;
}
