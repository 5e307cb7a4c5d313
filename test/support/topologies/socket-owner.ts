import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

const ESTABLISHED = '01';
const INODE_FIELD = 9;

/**
 * Finds which of some processes has connected from a port of this machine. Undefined: none of them, or the connection is gone.
 * Reads /proc, so Linux only.
 */
export function findSocketOwner(port: number, pids: readonly number[]): number | undefined {
  const inode = findInode(port);
  if (inode === undefined) return undefined;
  return pids.find((pid) => listSockets(pid).includes(`socket:[${inode}]`));
}

/** Finds the inode of the connection whose local port it is; proc(5): addresses are hexadecimal. */
function findInode(port: number): string | undefined {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  for (const line of readFileSync('/proc/net/tcp', 'utf8').split('\n').slice(1)) {
    const fields = line.trim().split(/\s+/);
    if (fields[1]?.endsWith(suffix) === true && fields[3] === ESTABLISHED)
      return fields[INODE_FIELD];
  }
  return undefined;
}

function listSockets(pid: number): string[] {
  try {
    const folder = `/proc/${pid}/fd`;
    return readdirSync(folder).flatMap((name) => readLink(`${folder}/${name}`));
  } catch {
    // It has ended.
    return [];
  }
}

function readLink(path: string): string[] {
  try {
    return [readlinkSync(path)];
  } catch {
    return [];
  }
}
