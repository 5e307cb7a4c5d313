import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

const ESTABLISHED = '01';
const STATE_FIELD = 3;
const INODE_FIELD = 9;

/**
 * Finds which of some processes have connected from ports of this machine. Ports of other processes are left out. Reads /proc, so
 * Linux only.
 */
export function findSocketOwners(
  ports: readonly number[],
  pids: readonly number[],
): Map<number, number> {
  const pidsBySocket = new Map(
    pids.flatMap((pid) => listSockets(pid).map((socket) => [socket, pid] as const)),
  );
  const wanted = new Set(ports);
  return new Map(
    readConnections().flatMap(({ port, socket }) => {
      const pid = pidsBySocket.get(socket);
      return pid !== undefined && wanted.has(port) ? [[port, pid]] : [];
    }),
  );
}

/** Reads the connections by their local port; proc(5): addresses are hexadecimal. */
function readConnections(): { port: number; socket: string }[] {
  const lines = readFileSync('/proc/net/tcp', 'utf8').split('\n').slice(1);
  return lines.flatMap((line) => {
    const fields = line.trim().split(/\s+/);
    const [, hexPort] = (fields[1] ?? '').split(':');
    if (hexPort === undefined || fields[STATE_FIELD] !== ESTABLISHED) return [];
    return [{ port: Number.parseInt(hexPort, 16), socket: `socket:[${fields[INODE_FIELD]}]` }];
  });
}

function listSockets(pid: number): string[] {
  const folder = `/proc/${pid}/fd`;
  try {
    return readdirSync(folder).flatMap((name) => readLink(`${folder}/${name}`));
  } catch {
    // It has ended.
    return [];
  }
}

function readLink(path: string): string[] {
  try {
    const target = readlinkSync(path);
    return target.startsWith('socket:') ? [target] : [];
  } catch {
    return [];
  }
}
