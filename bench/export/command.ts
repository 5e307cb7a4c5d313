import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { readChildPids, readPeakMb } from '../support/resource-usage.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const POLL_INTERVAL_MS = 20;
const MAIN = 'services/cli/src/main.ts';

/** Result of a command, and the highest resident set of its process. */
export interface CommandEnd {
  code: number;
  peakMb: number;
  stderr: string;
}

/** Action that is run once during a command. */
export interface Interruption {
  when(): boolean;
  act(pid: number): void;
}

/** Runs `npm run carillon -- ARGS` and measures the memory of its process until it ends. */
export async function runCommand(
  args: readonly string[],
  env: Record<string, string>,
  interruption?: Interruption,
): Promise<CommandEnd> {
  const child = spawn(
    process.execPath,
    ['tools/supervisor/bootstrap.mjs', 'carillon', '--json', ...args],
    { cwd: ROOT, env: { ...process.env, ...env }, stdio: ['ignore', 'ignore', 'pipe'] },
  );
  // In case the benchmark is interrupted.
  const stopOnExit = () => void child.kill('SIGTERM');
  process.once('exit', stopOnExit);
  let stderr = '';
  child.stderr.on('data', (chunk) => {
    stderr += chunk;
  });
  let peakMb = 0;
  let isInterrupted = false;
  while (child.exitCode === null && child.signalCode === null) {
    await sleep(POLL_INTERVAL_MS);
    const pid = findMain(child.pid ?? 0);
    if (pid === undefined) continue;
    peakMb = Math.max(peakMb, readPeakOf(pid));
    if (isInterrupted || interruption?.when() !== true) continue;
    isInterrupted = true;
    interruption.act(pid);
  }
  process.off('exit', stopOnExit);
  return { code: child.exitCode ?? 1, peakMb, stderr };
}

/** Finds the process of the command line below its bootstrap. */
function findMain(bootstrap: number): number | undefined {
  try {
    return readChildPids(bootstrap).find((pid) =>
      readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(MAIN),
    );
  } catch {
    return undefined;
  }
}

/** Reads the peak; 0 when the process has ended meanwhile. */
function readPeakOf(pid: number): number {
  try {
    return readPeakMb(pid) || 0;
  } catch {
    return 0;
  }
}
