import { readFileSync } from 'node:fs';

/** Where starttime is among the fields that follow the name in /proc/<pid>/stat; proc(5). */
const START_TIME_FIELD = 19;

/**
 * Names a process for good: its pid and the moment it began, for pids are used again.
 * Without a /proc the pid has to do. Undefined when there is no such process.
 */
export function readStartTime(pid: number): string | undefined {
  return isAlive(pid) ? `${pid} ${readStat(pid)?.[START_TIME_FIELD] ?? ''}` : undefined;
}

/** True while the process runs. A zombie, which only waits to be counted, does not. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
  return readStat(pid)?.[0] !== 'Z';
}

/** True while a signal has stopped the process. */
export function isStopped(pid: number): boolean {
  return readStat(pid)?.[0] === 'T';
}

/** The processes that this one has started itself; none where the system has no /proc. */
export function readChildPids(pid: number): number[] {
  try {
    const list = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
    return list.trim().split(' ').filter(Boolean).map(Number);
  } catch {
    return [];
  }
}

/** The fields after the name, which is in parentheses and may contain anything. */
function readStat(pid: number): string[] | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  } catch {
    return undefined;
  }
}
