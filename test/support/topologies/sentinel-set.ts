import { rm } from 'node:fs/promises';
import { createDataFolder } from '../data-folder.ts';
import { until } from '../until.ts';
import { createRedisNode, type RedisNode, readInfoField, startAll } from './redis-node.ts';
import { createSecurity, type Security } from './security.ts';

const NAME = 'carillon';
const REPLICAS = 2;
const SENTINELS = 3;
const QUORUM = 2;
/** As in docs/run/scaling.md. */
const DOWN_AFTER_MS = 3_000;
const FAILOVER_TIMEOUT_MS = 10_000;
const FORMED_WITHIN_MS = 60_000;
const REPLACED_WITHIN_MS = 60_000;

/** A primary with two replicas, and three Sentinels that replace it. */
export interface SentinelSet {
  /** URL as REDIS_URL takes it. */
  url: string;
  /** Certificate of its authority, if it is secured. */
  ca: string | undefined;
  /** The servers: the first is the primary at the start. */
  servers: readonly RedisNode[];
  sentinels: readonly RedisNode[];
  /** Waits until the Sentinels agree on a primary that runs and takes writes, and returns it. */
  findPrimary(): Promise<RedisNode>;
  /** Starts the servers and Sentinels that are not running. */
  startAll(): Promise<void>;
  /** Ends all processes and removes their files. */
  remove(): Promise<void>;
}

const SERVER_LINES = [
  ...['save ""', 'appendonly no', 'maxmemory-policy noeviction'],
  ...['repl-diskless-sync yes', 'repl-diskless-sync-delay 0', 'repl-ping-replica-period 1'],
];

/** Starts a set on free ports of this machine, and waits until a failover is possible. */
export async function startSentinelSet({
  isLent = false,
  isSecured = false,
} = {}): Promise<SentinelSet> {
  const folder = await createDataFolder();
  const security = isSecured ? await createSecurity(folder) : undefined;
  const servers: RedisNode[] = [];
  for (let n = 0; n <= REPLICAS; n += 1) {
    const primary = servers[0];
    const lines = [
      ...SERVER_LINES,
      ...(primary === undefined ? [] : [`replicaof 127.0.0.1 ${primary.port}`]),
      ...(security ? [`masteruser ${security.user}`, `masterauth ${security.password}`] : []),
    ];
    servers.push(await createRedisNode(folder, { lines, isLent, security }));
  }
  const sentinels: RedisNode[] = [];
  const primaryPort = servers[0]?.port ?? 0;
  for (let n = 0; n < SENTINELS; n += 1)
    sentinels.push(
      await createRedisNode(folder, {
        ...sentinelSettings(primaryPort, security),
        ...{ isLent, security },
      }),
    );
  const all = [...servers, ...sentinels];
  const set: SentinelSet = {
    ca: security?.ca,
    url: formatUrl(sentinels, security),
    servers,
    sentinels,
    findPrimary: () =>
      until(() => findAgreedPrimary(servers, sentinels), {
        timeoutMs: REPLACED_WITHIN_MS,
        everyMs: 100,
        what: 'a primary of the Sentinels',
      }),
    startAll: () => startAll(all.filter((node) => !node.isRunning())),
    async remove() {
      for (const node of all) node.thaw();
      await Promise.all(all.map((node) => node.remove()));
      await rm(folder, { recursive: true, force: true });
    },
  };
  try {
    await startAll(servers);
    await startAll(sentinels);
    await until(() => isFormed(sentinels), {
      timeoutMs: FORMED_WITHIN_MS,
      everyMs: 100,
      what: 'Sentinels that know each other and the replicas',
    });
    return set;
  } catch (error) {
    await set.remove();
    throw error;
  }
}

function formatUrl(sentinels: readonly RedisNode[], security: Security | undefined): string {
  const path = `${sentinels.map(({ address }) => address).join()}/${NAME}`;
  if (security === undefined) return `redis+sentinel://${path}`;
  const own = new URLSearchParams({
    sentinelUsername: security.user,
    sentinelPassword: security.password,
  });
  return `rediss+sentinel://${security.credentials}${path}?${own}`;
}

function sentinelSettings(primaryPort: number, security: Security | undefined) {
  return {
    args: ['--sentinel'],
    lines: [
      `sentinel monitor ${NAME} 127.0.0.1 ${primaryPort} ${QUORUM}`,
      `sentinel down-after-milliseconds ${NAME} ${DOWN_AFTER_MS}`,
      `sentinel failover-timeout ${NAME} ${FAILOVER_TIMEOUT_MS}`,
      `sentinel parallel-syncs ${NAME} 1`,
      ...(security
        ? [
            `sentinel auth-user ${NAME} ${security.user}`,
            `sentinel auth-pass ${NAME} ${security.password}`,
            `sentinel sentinel-user ${security.user}`,
            `sentinel sentinel-pass ${security.password}`,
          ]
        : []),
    ],
  };
}

async function isFormed(sentinels: readonly RedisNode[]): Promise<boolean> {
  const summary = new RegExp(
    `name=${NAME},status=ok,.*slaves=${REPLICAS},sentinels=${SENTINELS}\\b`,
  );
  const infos = await Promise.all(sentinels.map((node) => node.run((redis) => redis.info())));
  return infos.every((info) => summary.test(info));
}

/** Returns the server that every running Sentinel names, if it runs as a primary. */
async function findAgreedPrimary(
  servers: readonly RedisNode[],
  sentinels: readonly RedisNode[],
): Promise<RedisNode | undefined> {
  const named = await Promise.all(
    sentinels
      .filter((sentinel) => sentinel.isRunning())
      .map((sentinel) =>
        sentinel.run((redis) => redis.call('SENTINEL', 'get-master-addr-by-name', NAME)),
      ),
  );
  const ports = new Set(named.map((address) => (address as string[])[1]));
  const primary = servers.find(({ port }) => ports.has(`${port}`));
  if (ports.size !== 1 || primary === undefined || !primary.isRunning()) return undefined;
  const info = await primary.run((redis) => redis.info('replication'));
  return readInfoField(info, 'role') === 'master' ? primary : undefined;
}
