import type { Cluster } from 'ioredis';
import type { ReadNode, RedisTopology } from './redis-topology.ts';

/** Number of hash slots of a Redis Cluster. */
const SLOTS = 16_384;
/** Maximum `cluster-node-timeout`: with a longer one a failover takes more than ten seconds. */
const MAX_NODE_TIMEOUT_MS = 5_000;

type Server = ReturnType<Cluster['nodes']>[number];

/** Queries each node of a cluster. */
export async function inspectCluster(
  cluster: Cluster,
  readNode: ReadNode,
): Promise<Omit<RedisTopology, 'kind'>> {
  const servers = new Map(cluster.nodes('all').map((node) => [addressOf(node), node]));
  const inspected = await Promise.all(
    [...servers].map(async ([address, server]) => ({
      address,
      node: await readNode(server, address).catch(() => undefined),
      settings: await readSettings(server).catch(() => new Map<string, string>()),
    })),
  );
  const responding = inspected.filter(({ node }) => node !== undefined);
  const online = new Set(responding.map(({ address }) => address));
  const parts = listParts(cluster);
  const served = cluster.slots.filter((nodes) => nodes !== undefined).length;
  const faults = [
    ...(served < SLOTS ? [`${SLOTS - served} slots have no node`] : []),
    ...parts
      .filter(({ replicas }) => !replicas.some((replica) => online.has(replica)))
      .map(({ primary }) => `the primary ${primary} has no replica that is online`),
    ...responding.flatMap(({ address, settings }) => listSettingFaults(address, settings)),
  ];
  const replicas = [...servers.keys()].filter(
    (one) => !parts.some(({ primary }) => primary === one),
  );
  return {
    summary: `cluster of ${parts.length} primaries with ${replicas.length} replicas`,
    nodes: responding.flatMap(({ node }) => node ?? []),
    failoverFaults: faults,
  };
}

/** Lists the primaries that serve slots, with their replicas. */
function listParts(cluster: Cluster): { primary: string; replicas: string[] }[] {
  const parts = new Map<string, string[]>();
  for (const [primary, ...replicas] of cluster.slots.filter((nodes) => nodes !== undefined))
    if (primary !== undefined) parts.set(primary, replicas);
  return [...parts].map(([primary, replicas]) => ({ primary, replicas }));
}

/** Reads settings; a server that forbids it has none. */
async function readSettings(server: Server): Promise<Map<string, string>> {
  const reply = (await server.call('CONFIG', 'GET', 'cluster-*')) as string[];
  return new Map(
    reply.flatMap((name, index) => (index % 2 === 0 ? [[name, reply[index + 1] ?? '']] : [])),
  );
}

function listSettingFaults(address: string, settings: ReadonlyMap<string, string>): string[] {
  const timeoutMs = Number(settings.get('cluster-node-timeout') ?? 0);
  const coverage = settings.get('cluster-require-full-coverage');
  return [
    ...(timeoutMs > MAX_NODE_TIMEOUT_MS
      ? [
          `cluster-node-timeout of ${address} is ${timeoutMs}; set it to 5000, or a failover takes longer than 10 s`,
        ]
      : []),
    ...(coverage === 'yes'
      ? [
          `cluster-require-full-coverage of ${address} is yes; set it to no, or one part that fails stops all others`,
        ]
      : []),
  ];
}

function addressOf({ options }: Server): string {
  return `${options.host}:${options.port}`;
}
