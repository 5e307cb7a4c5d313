import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { isAlive } from '../stack/processes.ts';
import { until } from '../until.ts';

/**
 * The pids of all processes that have anything to do with a stack: those that name one of its
 * marks (its folder, the address of its database) in their environment or command line, and those
 * that work in its folder or have a file of it open.
 */
export function processesOf(folder: string, ...marks: string[]): number[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  const all = [folder, ...marks];
  return pids.map(Number).filter((pid) => pid !== process.pid && isAlive(pid) && isOf(pid, all));
}

function isOf(pid: number, marks: readonly string[]): boolean {
  const at = `/proc/${pid}`;
  const words = `${textOf(`${at}/environ`)}\0${textOf(`${at}/cmdline`)}`;
  const links = [`${at}/cwd`, ...listOf(`${at}/fd`).map((fd) => `${at}/fd/${fd}`)].map(linkOf);
  const [folder = ''] = marks;
  return (
    marks.some((mark) => words.includes(mark)) ||
    links.some((link) => link === folder || link.startsWith(`${folder}/`))
  );
}

/** Ends processes at once, and waits until they are gone. */
export async function endAll(pids: readonly number[]): Promise<void> {
  for (const pid of pids.filter(isAlive)) process.kill(pid, 'SIGKILL');
  await until(() => !pids.some(isAlive));
}

function textOf(path: string): string {
  return orElse('', () => readFileSync(path, 'utf8'));
}

function linkOf(path: string): string {
  return orElse('', () => readlinkSync(path));
}

function listOf(path: string): string[] {
  return orElse([], () => readdirSync(path));
}

/** A process may end between two looks, and others' are not open to an ordinary user. */
function orElse<T>(fallback: T, look: () => T): T {
  try {
    return look();
  } catch {
    return fallback;
  }
}
