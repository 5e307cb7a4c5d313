import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import type { Redis } from 'ioredis';
import type { StackFixture } from '../../support/fixture.ts';
import { readCpuSeconds } from '../../support/resource-usage.ts';
import type { Resources } from '../measured.ts';

/** The Redis of presence alone, so that its costs are separate from those of the queues. */
export interface PresenceServer {
  url: string;
  pid: number;
  redis: Redis;
}

/** Services and servers whose costs are kept; others of the stack are not part of a deployment's path. */
const KEPT = new Set([
  'api',
  'delivery-worker',
  'device-gateway',
  'scheduler',
  'redis',
  'mongodb',
  'presence',
]);
const SERVERS = new Set(['redis', 'mongodb', 'presence']);

/** Starts a measurement. The returned function returns the use since then: CPU in µs, the rest in bytes. */
export async function startMeter(
  fixture: StackFixture,
  presence: PresenceServer,
): Promise<() => Promise<Resources>> {
  const before = await readTotals(fixture, presence);
  return async () => {
    const after = await readTotals(fixture, presence);
    return Object.fromEntries(
      Object.entries(after).map(([name, total]) => [name, total - (before[name] ?? 0)]),
    );
  };
}

/** Counts the open connections of one process of each service to each server: the highest of its processes. */
export function countConnections(
  { stack }: StackFixture,
  ports: Readonly<Record<string, number>>,
): Record<string, Record<string, number>> {
  const remotePorts = readRemotePorts();
  const highest: Record<string, Record<string, number>> = {};
  for (const { service, pid } of stack.dev.processes) {
    if (!KEPT.has(service) || SERVERS.has(service)) continue;
    const open = readSocketInodes(pid).map((inode) => remotePorts.get(inode));
    const ofService = highest[service] ?? {};
    highest[service] = ofService;
    for (const [server, port] of Object.entries(ports)) {
      const count = open.filter((remote) => remote === port).length;
      ofService[server] = Math.max(ofService[server] ?? 0, count);
    }
  }
  return highest;
}

async function readTotals(fixture: StackFixture, presence: PresenceServer): Promise<Resources> {
  const totals: Resources = {};
  const add = (name: string, amount: number) => {
    totals[name] = (totals[name] ?? 0) + amount;
  };
  const processes = [...fixture.stack.dev.processes, { service: 'presence', pid: presence.pid }];
  for (const { service, pid } of processes) {
    if (!KEPT.has(service)) continue;
    add(`${service} cpu`, readCpuSeconds(pid) * 1e6);
    if (SERVERS.has(service)) continue;
    const io = readFileSync(`/proc/${pid}/io`, 'utf8');
    add(`${service} in`, Number(/^rchar: (\d+)$/m.exec(io)?.[1]));
    add(`${service} out`, Number(/^wchar: (\d+)$/m.exec(io)?.[1]));
  }
  for (const [name, redis] of Object.entries({ redis: fixture.redis, presence: presence.redis })) {
    const stats = await redis.info('stats');
    add(`${name} in`, Number(/total_net_input_bytes:(\d+)/.exec(stats)?.[1]));
    add(`${name} out`, Number(/total_net_output_bytes:(\d+)/.exec(stats)?.[1]));
  }
  const { wiredTiger, network } = await fixture.mongo.admin().serverStatus();
  add('mongodb journal', Number(wiredTiger.log['log bytes written']));
  add('mongodb in', Number(network.bytesIn));
  add('mongodb out', Number(network.bytesOut));
  return totals;
}

/** Remote port of each TCP socket by its inode; proc(5), /proc/net/tcp. */
function readRemotePorts(): Map<string, number> {
  const ports = new Map<string, number>();
  for (const file of ['/proc/net/tcp', '/proc/net/tcp6']) {
    for (const line of readFileSync(file, 'utf8').split('\n').slice(1)) {
      const fields = line.trim().split(/\s+/);
      const [port, inode] = [fields[2]?.split(':')[1], fields[9]];
      if (port !== undefined && inode !== undefined) ports.set(inode, Number.parseInt(port, 16));
    }
  }
  return ports;
}

function readSocketInodes(pid: number): string[] {
  const folder = `/proc/${pid}/fd`;
  return readdirSync(folder).flatMap((fd) => {
    try {
      return /^socket:\[(\d+)\]$/.exec(readlinkSync(`${folder}/${fd}`))?.[1] ?? [];
    } catch {
      // The socket was closed meanwhile.
      return [];
    }
  });
}
