import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { isAlive } from '../stack/processes.ts';
import { until } from '../until.ts';

/**
 * The pids of all processes that have anything to do with a stack: those that name one of its
 * marks (its folder, the address of its database) in their environment or command line, and those
 * that work in its folder or have a file of it open.
 */
export function findProcesses(folder: string, ...markers: string[]): number[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  const allMarkers = [folder, ...markers];
  return pids
    .map(Number)
    .filter((pid) => pid !== process.pid && isAlive(pid) && belongsTo(pid, allMarkers));
}

function belongsTo(pid: number, markers: readonly string[]): boolean {
  const at = `/proc/${pid}`;
  const environment = `${readText(`${at}/environ`)}\0${readText(`${at}/cmdline`)}`;
  const links = [`${at}/cwd`, ...listFolder(`${at}/fd`).map((fd) => `${at}/fd/${fd}`)].map(
    readLink,
  );
  const [folder = ''] = markers;
  return (
    markers.some((mark) => environment.includes(mark)) ||
    links.some((link) => link === folder || link.startsWith(`${folder}/`))
  );
}

/** Ends processes at once, and waits until they are gone. */
export async function killProcesses(pids: readonly number[]): Promise<void> {
  for (const pid of pids.filter(isAlive)) tryOr(true, () => process.kill(pid, 'SIGKILL'));
  await until(() => !pids.some(isAlive));
}

function readText(path: string): string {
  return tryOr('', () => readFileSync(path, 'utf8'));
}

function readLink(path: string): string {
  return tryOr('', () => readlinkSync(path));
}

function listFolder(path: string): string[] {
  return tryOr([], () => readdirSync(path));
}

/** A process may end between two reads, and those of others are not readable for an ordinary user. */
function tryOr<T>(fallback: T, read: () => T): T {
  try {
    return read();
  } catch {
    return fallback;
  }
}
