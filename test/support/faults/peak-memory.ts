import { readFileSync } from 'node:fs';
import { readDev } from '../stack/dev-file.ts';
import type { Stack } from '../stack.ts';

const SERVERS = ['redis', 'mongodb'];

/** The most memory that each service of a stack has used, in MB (`VmHWM`), under names such as `api-0`. */
export function readPeakMemory({ home }: Pick<Stack, 'home'>): Record<string, number> {
  const services = (readDev(home)?.processes ?? []).filter(
    ({ service }) => !SERVERS.includes(service),
  );
  return Object.fromEntries(
    services.map(({ service, index, pid }) => [`${service}-${index}`, readPeakOf(pid)]),
  );
}

/** The most memory that a process has used, in MB. */
export function readPeakOf(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Math.round(Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]) / 1_024);
}
