import { readFileSync } from 'node:fs';

/** Reads the resident memory of a process, in bytes. @throws when there is no such process */
export function readResidentBytes(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) * 1_024;
}
