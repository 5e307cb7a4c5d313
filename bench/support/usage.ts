import { readFileSync, writeFileSync } from 'node:fs';
import type { Stack } from './stack.ts';

/** Clock ticks a second in /proc/<pid>/stat: fixed on Linux, whatever the kernel's own rate. */
const TICKS = 100;
/** Where utime is among the fields that follow the name; proc(5). */
const UTIME = 11;

/** What a process has used. */
export interface Use {
  /** `api-0`, for instance. */
  process: string;
  cpuSeconds: number;
  peakMb: number;
}

/** Measures the processes of a stack from now on. */
export interface Meter {
  /** Of each process, until now. */
  read(): Use[];
}

/** Seconds of CPU that a process has used, its children's not included. */
export function cpuSeconds(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[UTIME]) + Number(fields[UTIME + 1])) / TICKS;
}

/** The process of a service. @throws when the stack has none */
export function pidOf({ dev }: Pick<Stack, 'dev'>, service: string, index = 0): number {
  const found = dev.processes.find((one) => one.service === service && one.index === index);
  if (found === undefined) throw new Error(`the stack has no ${service}-${index}`);
  return found.pid;
}

/** Begins a measurement: peaks of memory count from here too. */
export function startMeter(stack: Stack): Meter {
  const processes = [
    ...stack.dev.processes.map(({ service, index, pid }) => ({ name: `${service}-${index}`, pid })),
    { name: 'npm-start', pid: stack.pid },
    ...childrenOf(stack.pid).map((pid) => ({ name: 'supervisor', pid })),
  ];
  const from = processes.map(({ pid }) => {
    // Makes VmHWM begin anew; proc(5), clear_refs.
    writeFileSync(`/proc/${pid}/clear_refs`, '5');
    return cpuSeconds(pid);
  });
  return {
    read: () =>
      processes.map(({ name, pid }, index) => ({
        process: name,
        cpuSeconds: cpuSeconds(pid) - (from[index] ?? 0),
        peakMb: peakMb(pid),
      })),
  };
}

/** All CPU of a measurement, in seconds. */
export function totalCpu(uses: readonly Use[]): number {
  return uses.reduce((sum, use) => sum + use.cpuSeconds, 0);
}

function peakMb(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]) / 1_024;
}

/** Resident memory of a process now, in MB. */
export function residentMb(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) / 1_024;
}

function childrenOf(pid: number): number[] {
  const list = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8');
  return list.trim().split(' ').filter(Boolean).map(Number);
}
