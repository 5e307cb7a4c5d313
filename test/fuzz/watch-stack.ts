import { readLogLines } from '../support/end-to-end/logs.ts';
import { readResidentBytes } from '../support/resident-memory.ts';
import type { Stack } from '../support/stack.ts';

/** How much more memory a process may have at the end of a run, however long it was. */
const MAX_GROWTH_BYTES = 256 * 1_024 * 1_024;
const MB = 1_024 * 1_024;
/** Lines of a kind that are reported. */
const MAX_LINES = 10;

/** Levels of pino: 50 is an error, 60 ends a process. */
const UNEXPECTED =
  /^(?:(?:api|dashboard)-\d+\.log: .*"level":50|(?:api|dashboard|delivery-worker|scheduler|device-gateway)-\d+\.log: .*(?:"level":60|uncaught|unhandled))/i;

/** Watch over the processes of a stack during a run. */
export interface StackWatch {
  /**
   * Lists processes that have ended or grown, and lines with an unexpected error or a secret, since the watch began.
   *
   * @param moreSecrets texts that no process may have logged, besides those of the watch
   */
  findViolations(moreSecrets?: readonly string[]): string[];
  /** Memory of each process in MB: at the start and now. */
  readMemory(): Record<string, [before: number, now: number]>;
}

interface WatchedProcess {
  name: string;
  service: string;
  index: number;
  pid: number;
  /** Memory when the watch began. */
  bytes: number;
}

/**
 * Watches the processes of a stack from now on.
 *
 * @param secrets texts that no process may log
 */
export function watchStack(
  stack: Pick<Stack, 'dev' | 'home' | 'pidOf'>,
  secrets: readonly string[],
): StackWatch {
  const processes = stack.dev.processes.map(({ service, index }): WatchedProcess => {
    const pid = stack.pidOf(service, index);
    return { name: `${service}-${index}`, service, index, pid, bytes: readResidentBytes(pid) };
  });
  // Another file that had the stack before may have caused errors.
  const linesBefore = new Set(readLogLines(stack.home));
  const isThere = ({ service, index, pid }: WatchedProcess) => stack.pidOf(service, index) === pid;
  return {
    readMemory: () =>
      Object.fromEntries(
        processes
          .filter(isThere)
          .map(({ name, pid, bytes }) => [name, [toMb(bytes), toMb(readResidentBytes(pid))]]),
      ),
    findViolations(moreSecrets = []) {
      const unloggable = [...secrets, ...moreSecrets];
      const ended = processes.filter((process) => !isThere(process));
      const grown = processes
        // MongoDB keeps its data in memory as long as there is some.
        .filter((process) => isThere(process) && process.service !== 'mongodb')
        .filter(({ pid, bytes }) => readResidentBytes(pid) > bytes + MAX_GROWTH_BYTES);
      const lines = readLogLines(stack.home).filter((line) => !linesBefore.has(line));
      const errors = lines.filter((line) => UNEXPECTED.test(line));
      const leaks = lines.filter((line) => unloggable.some((secret) => line.includes(secret)));
      return [
        ...ended.map(({ name }) => `${name} has ended`),
        ...grown.map(({ name, bytes }) => `${name} has grown from ${toMb(bytes)} MB without bound`),
        ...errors.slice(0, MAX_LINES).map((line) => `logged: ${line}`),
        ...leaks.slice(0, MAX_LINES).map((line) => `logged with a secret: ${line}`),
      ];
    },
  };
}

function toMb(bytes: number): number {
  return Math.round(bytes / MB);
}
