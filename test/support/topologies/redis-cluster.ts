import { rm } from 'node:fs/promises';
import { freePort } from '../../../packages/presence/test/start-server.ts';
import { createDataFolder } from '../data-folder.ts';
import { until } from '../until.ts';
import { createRedisNode, type RedisNode, readInfoField, startAll } from './redis-node.ts';
import { createSecurity, type Security } from './security.ts';

const PRIMARIES = 3;
const SLOTS = 16_384;
/** As in docs/run/scaling.md. */
const NODE_TIMEOUT_MS = 5_000;
const MEET_INTERVAL_MS = 6_000;
const FORMED_WITHIN_MS = 60_000;
const REPLACED_WITHIN_MS = 60_000;

/** A Redis Cluster of three primaries, perhaps with a replica each. */
export interface RedisCluster {
  /** URL as REDIS_URL takes it. */
  url: string;
  /** Certificate of its authority, if it is secured. */
  ca: string | undefined;
  nodes: readonly RedisNode[];
  /** Waits until a running node serves the slot, and returns it. */
  findPrimary(slot: number): Promise<RedisNode>;
  /** Returns the running nodes that serve slots. */
  listPrimaries(): Promise<RedisNode[]>;
  /** Moves a slot with all its keys, key by key, while clients use it. */
  moveSlot(slot: number, to: RedisNode): Promise<void>;
  /** Checks that all nodes run, and know of each slot who serves it, and a replica if there are any. */
  isWhole(): Promise<boolean>;
  /** Starts the nodes that are not running. */
  startAll(): Promise<void>;
  /** Ends all processes and removes their files. */
  remove(): Promise<void>;
}

/** Starts a cluster on free ports of this machine, and waits until it serves all slots. */
export async function startRedisCluster({
  replicas = 1,
  isLent = false,
  isSecured = false,
}: {
  /** Of each primary. */
  replicas?: 0 | 1;
  isLent?: boolean;
  isSecured?: boolean;
} = {}): Promise<RedisCluster> {
  const folder = await createDataFolder();
  const security = isSecured ? await createSecurity(folder) : undefined;
  const nodes: RedisNode[] = [];
  const busPorts = new Map<RedisNode, number>();
  for (let n = 0; n < PRIMARIES * (1 + replicas); n += 1) {
    const busPort = await freePort();
    const lines = clusterLines(busPort, security);
    const node = await createRedisNode(folder, { lines, isLent, security });
    busPorts.set(node, busPort);
    nodes.push(node);
  }
  const cluster: RedisCluster = {
    ca: security?.ca,
    url: `${security ? 'rediss' : 'redis'}+cluster://${security?.credentials ?? ''}${nodes.map(({ address }) => address).join()}`,
    nodes,
    findPrimary: (slot) =>
      until(() => findServing(nodes, slot), {
        timeoutMs: REPLACED_WITHIN_MS,
        everyMs: 100,
        what: `a node that serves the slot ${slot}`,
      }),
    listPrimaries: async () => [
      ...new Set((await readSlots(nodes)).filter((node) => node !== undefined)),
    ],
    moveSlot: (slot, to) => moveSlot(nodes, slot, to),
    isWhole: async () =>
      nodes.every((node) => node.isRunning()) &&
      (await Promise.all(nodes.map((node) => knowsAll(node, replicas > 0)))).every(Boolean),
    startAll: () => startAll(nodes.filter((node) => !node.isRunning())),
    async remove() {
      for (const node of nodes) node.thaw();
      await Promise.all(nodes.map((node) => node.remove()));
      await rm(folder, { recursive: true, force: true });
    },
  };
  try {
    await startAll(nodes);
    await formCluster(nodes, busPorts);
    return cluster;
  } catch (error) {
    await cluster.remove();
    throw error;
  }
}

function clusterLines(busPort: number, security: Security | undefined): string[] {
  const { user = '', password = '' } = security ?? {};
  return [
    ...(security ? ['tls-cluster yes', `masteruser ${user}`, `masterauth ${password}`] : []),
    ...['save ""', 'appendonly no', 'maxmemory-policy noeviction'],
    ...['repl-diskless-sync yes', 'repl-diskless-sync-delay 0'],
    // A replica that has received nothing yet is not in CLUSTER SLOTS.
    'repl-ping-replica-period 1',
    ...['cluster-enabled yes', `cluster-port ${busPort}`],
    `cluster-node-timeout ${NODE_TIMEOUT_MS}`,
    // One part without a primary must not stop the others.
    'cluster-require-full-coverage no',
  ];
}

async function formCluster(
  nodes: readonly RedisNode[],
  busPorts: ReadonlyMap<RedisNode, number>,
): Promise<void> {
  const primaries = nodes.slice(0, PRIMARIES);
  const [first] = primaries;
  for (const [n, node] of primaries.entries()) {
    await node.run((redis) => redis.cluster('SET-CONFIG-EPOCH', n + 1));
    await node.run((redis) => redis.cluster('ADDSLOTSRANGE', ...slotRange(n)));
  }
  const readState = (node: RedisNode) => node.run((redis) => redis.cluster('INFO'));
  const polling = { timeoutMs: FORMED_WITHIN_MS, everyMs: 100 };
  let metAt = Number.NEGATIVE_INFINITY;
  const allKnowAll = async () => {
    if (performance.now() - metAt > MEET_INTERVAL_MS) {
      metAt = performance.now();
      await join(first, nodes.slice(1), busPorts);
    }
    const infos = await Promise.all(nodes.map(readState));
    return infos.every((info) => readInfoField(info, 'cluster_known_nodes') === `${nodes.length}`);
  };
  await until(allKnowAll, { ...polling, what: 'nodes that know each other' });
  for (const [n, replica] of nodes.slice(PRIMARIES).entries()) {
    const id = await primaries[n % PRIMARIES]?.run((redis) => redis.cluster('MYID'));
    await replica.run((redis) => redis.cluster('REPLICATE', String(id)));
  }
  const hasReplicas = nodes.length > PRIMARIES;
  const isReady = async (node: RedisNode) =>
    (await knowsAll(node, hasReplicas)) &&
    readInfoField(await readState(node), 'cluster_state') === 'ok';
  const allReady = async () => (await Promise.all(nodes.map(isReady))).every(Boolean);
  await until(allReady, { ...polling, what: 'a cluster that serves all slots' });
}

/** Introduces nodes to the first one; a handshake that takes too long is forgotten. */
async function join(
  first: RedisNode | undefined,
  others: readonly RedisNode[],
  busPorts: ReadonlyMap<RedisNode, number>,
): Promise<void> {
  const known = (await first?.run((redis) => redis.cluster('NODES'))) ?? '';
  for (const node of others.filter(({ address }) => !String(known).includes(address))) {
    const busPort = busPorts.get(node) ?? 0;
    await first?.run((redis) => redis.call('CLUSTER', 'MEET', '127.0.0.1', node.port, busPort));
  }
}

/** Checks that a node knows who serves each slot, and perhaps a replica that could take over. */
async function knowsAll(node: RedisNode, hasReplicas: boolean): Promise<boolean> {
  const ranges = await node.run((redis) => redis.cluster('SLOTS'));
  const served = ranges.reduce((sum, [first, last]) => sum + last - first + 1, 0);
  return (
    served === SLOTS && ranges.every(([, , ...servers]) => servers.length > Number(hasReplicas))
  );
}

function slotRange(n: number): [first: number, last: number] {
  const at = (index: number) => Math.round((index * SLOTS) / PRIMARIES);
  return [at(n), at(n + 1) - 1];
}

/** Returns the node that serves each slot, as a running node sees it. */
async function readSlots(nodes: readonly RedisNode[]): Promise<(RedisNode | undefined)[]> {
  const ranges = await Promise.any(
    nodes
      .filter((node) => node.isRunning())
      .map((node) => node.run((redis) => redis.cluster('SLOTS'))),
  );
  const bySlot: (RedisNode | undefined)[] = Array.from({ length: SLOTS });
  for (const [first, last, primary] of ranges)
    bySlot.fill(
      nodes.find(({ port }) => port === primary?.[1]),
      first,
      last + 1,
    );
  return bySlot;
}

/** Returns the node that reports that it serves the slot itself. */
async function findServing(
  nodes: readonly RedisNode[],
  slot: number,
): Promise<RedisNode | undefined> {
  const node = (await readSlots(nodes))[slot];
  if (node === undefined || !node.isRunning()) return undefined;
  const own = await node.run(async (redis) => ({
    role: readInfoField(await redis.info('replication'), 'role'),
    state: readInfoField(await redis.cluster('INFO'), 'cluster_state'),
  }));
  return own.role === 'master' && own.state === 'ok' ? node : undefined;
}

/** Moves a slot as `redis-cli --cluster reshard` does. */
async function moveSlot(nodes: readonly RedisNode[], slot: number, to: RedisNode): Promise<void> {
  const from = await findServing(nodes, slot);
  if (from === undefined || from === to) throw new Error(`slot ${slot} can't be moved`);
  const idOf = (node: RedisNode) => node.run((redis) => redis.cluster('MYID'));
  const [fromId, toId] = [await idOf(from), await idOf(to)];
  await to.run((redis) => redis.cluster('SETSLOT', slot, 'IMPORTING', fromId));
  await from.run((redis) => redis.cluster('SETSLOT', slot, 'MIGRATING', toId));
  await from.run(async (redis) => {
    for (;;) {
      const keys = (await redis.cluster('GETKEYSINSLOT', slot, 10)) as string[];
      if (keys.length === 0) return;
      await redis.call('MIGRATE', '127.0.0.1', to.port, '', 0, 2_000, 'KEYS', ...keys);
    }
  });
  const isPrimary = async (node: RedisNode) =>
    readInfoField(await node.run((redis) => redis.info('replication')), 'role') === 'master';
  for (const node of [to, from, ...nodes])
    if (node.isRunning() && (await isPrimary(node)))
      await node.run((redis) => redis.cluster('SETSLOT', slot, 'NODE', toId));
}
