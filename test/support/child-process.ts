import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { withTimeout } from '../../packages/core/src/with-timeout.ts';

const STOP_MS = 40_000;

/** A program that a test runs. Nothing restarts it; the test ends it. */
export interface TestProcess {
  pid: number;
  isRunning(): boolean;
  /** Returns what it has written, if that is collected. */
  output(): string;
  /** Resolves to the exit code, or null after a signal, when it has ended and all its output is read. */
  exited: Promise<number | null>;
  kill(signal: NodeJS.Signals): void;
  /** Stops it with SIGTERM, or with SIGKILL if that takes too long. Returns the exit code. Harmless after its end. */
  stop(): Promise<number | null>;
}

/** Settings of a program. */
export interface TestProcessOptions {
  cwd?: string;
  /** All of its environment; that of the test if absent. */
  env?: NodeJS.ProcessEnv;
  /** Destination of its output; a file is appended to. */
  output?: 'collected' | 'ignored' | 'errors shown' | { file: string };
  /** It outlives the test file that starts it, so it is no open handle; its output is not collected. */
  isLent?: boolean;
}

/** Starts a program. */
export function startProcess(
  command: string,
  args: readonly string[],
  { cwd, env = process.env, output = 'collected', isLent = false }: TestProcessOptions = {},
): TestProcess {
  const file = typeof output === 'object' ? openSync(output.file, 'a') : undefined;
  const stdout = file ?? (output === 'collected' ? 'pipe' : 'ignore');
  const stderr = output === 'errors shown' ? 'inherit' : stdout;
  const child = spawn(command, args, { cwd, env, stdio: ['ignore', stdout, stderr] });
  if (file !== undefined) closeSync(file);
  if (isLent) child.unref();
  let text = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk;
    });
  }
  const exited = once(child, 'close').then(([code]) => code as number | null);
  return {
    pid: child.pid ?? 0,
    isRunning: () => child.exitCode === null && child.signalCode === null,
    output: () => text,
    exited,
    kill: (signal) => void child.kill(signal),
    async stop() {
      child.kill('SIGTERM');
      await withTimeout(exited, STOP_MS, command).catch(() => child.kill('SIGKILL'));
      return exited;
    },
  };
}
