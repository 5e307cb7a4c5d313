import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import type { Stack } from './stack.ts';

/** Clock ticks per second in /proc/<pid>/stat: fixed on Linux, independent of the kernel's tick rate. */
const TICKS_PER_SECOND = 100;
/** Index of utime among the fields after the name; proc(5). */
const UTIME_FIELD = 11;

/** Resource usage of a process. */
export interface ResourceUsage {
  /** For example `api-0`. */
  process: string;
  pid: number;
  cpuSeconds: number;
  peakMb: number;
}

/** Measures the resource usage of a stack's processes. */
export interface UsageMeter {
  /** Returns the usage of each process since the start of the measurement. */
  read(): ResourceUsage[];
}

/** Reads the CPU seconds of a process, without its children. */
export function readCpuSeconds(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[UTIME_FIELD]) + Number(fields[UTIME_FIELD + 1])) / TICKS_PER_SECOND;
}

/** Reads the CPU nanoseconds of a process's running threads, without its children: short rounds need more than ticks. */
export function readCpuNanoseconds(pid: number): number {
  const folder = `/proc/${pid}/task`;
  return readdirSync(folder).reduce((sum, thread) => {
    const schedstat = readFileSync(`${folder}/${thread}/schedstat`, 'utf8');
    return sum + Number(schedstat.split(' ')[0]);
  }, 0);
}

/** Finds the process of a service. @throws when the stack has none */
export function pidOf({ dev }: Pick<Stack, 'dev'>, service: string, index = 0): number {
  const matching = dev.processes.find((one) => one.service === service && one.index === index);
  if (matching === undefined) throw new Error(`the stack has no ${service}-${index}`);
  return matching.pid;
}

/** Starts a measurement and resets the memory peaks. */
export function startUsageMeter(stack: Stack): UsageMeter {
  const processes = [
    ...stack.dev.processes.map(({ service, index, pid }) => ({ name: `${service}-${index}`, pid })),
    { name: 'npm-start', pid: stack.pid },
    ...readChildPids(stack.pid).map((pid) => ({ name: 'supervisor', pid })),
  ];
  const baseline = processes.map(({ pid }) => {
    resetPeak(pid);
    return readCpuSeconds(pid);
  });
  return {
    read: () =>
      processes.map(({ name, pid }, index) => ({
        process: name,
        pid,
        cpuSeconds: readCpuSeconds(pid) - (baseline[index] ?? 0),
        peakMb: readPeakMb(pid),
      })),
  };
}

/** Checks whether a process belongs to a deployment that delivers pushes: one that only operators or developers use does not. */
export function isDeliveryProcess({ process }: Pick<ResourceUsage, 'process'>): boolean {
  return !/^(dashboard|sandbox|npm-start|supervisor)/.test(process);
}

/** Sums the CPU seconds of a measurement. */
export function sumCpuSeconds(uses: readonly ResourceUsage[]): number {
  return uses.reduce((sum, use) => sum + use.cpuSeconds, 0);
}

/** Resets the highest resident set of a process to the current one. */
function resetPeak(pid: number): void {
  // Resets VmHWM; proc(5), clear_refs.
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
}

/** Reads the highest resident set of a process in MB; `NaN` when it has just ended. */
function readPeakMb(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]) / 1_024;
}

/** Reads the proportional set size of a process in MB: pages that processes share count in equal parts. */
export function readPssMb(pid: number): number {
  const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  return Number(/^Pss:\s+(\d+) kB$/m.exec(rollup)?.[1]) / 1_024;
}

/** Lists the child processes of a process's main thread. */
function readChildPids(pid: number): number[] {
  const list = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
  return list.trim().split(' ').filter(Boolean).map(Number);
}
