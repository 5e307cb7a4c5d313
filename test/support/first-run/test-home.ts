import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { constants } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createDataFolder } from '../data-folder.ts';
import { type Dev, readDev } from '../stack/dev-file.ts';
import { type StackOptions, stackEnv } from '../stack/env.ts';
import { until } from '../until.ts';
import { findProcesses, killProcesses } from './find-processes.ts';

/** The checkout. */
export const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const MONGODB_PORT_OFFSET = 6;
/** Guards against hanging. */
const READY_MS = 150_000;
const EXIT_MS = 90_000;

/** A folder of a test's own, in which stacks are started again and again. */
export interface TestHome {
  /** CARILLON_HOME; does not exist at first. */
  home: string;
  /** Environment of `npm start`; the ports stay the same from start to start. */
  env: NodeJS.ProcessEnv;
  /** Starts; does not wait. `more` are variables that win; `dev` is `npm run dev`. */
  start(more?: Record<string, string>, command?: 'start' | 'dev'): NpmStart;
  /** The pids of all processes of this folder. */
  processes(): number[];
  /** Ends the processes that still run, and removes the folder unless a test of this file failed. */
  remove(): Promise<void>;
}

/** One run of `npm start`. */
export interface NpmStart {
  pid: number;
  stdout(): string;
  stderr(): string;
  /** Waits until it is ready. @throws when it ends instead */
  ready(): Promise<Dev>;
  /** Sends a signal to the one process that a user has started, and no other. */
  signal(signal: NodeJS.Signals): void;
  /** Waits for its end. Returns the exit code, 128 + its number for a signal. @throws after 90 s */
  exit(): Promise<number>;
}

/** Creates the folder. @param name of the home folder in it */
export async function createTestHome(options: StackOptions = {}, name = 'home'): Promise<TestHome> {
  const folder = await createDataFolder();
  const home = join(folder, name);
  const env = await stackEnv(home, options);
  const mongodb = `127.0.0.1:${Number(env.CARILLON_PORT_BASE) + MONGODB_PORT_OFFSET}`;
  const processes = () => findProcesses(home, mongodb);
  let starts = 0;
  return {
    home,
    env,
    start(more = {}, command = 'start') {
      starts += 1;
      return npmStart(command, { ...env, ...more }, home, join(folder, `start-${starts}`));
    },
    processes,
    async remove() {
      await killProcesses(processes());
      if ((globalThis.failures ?? 0) === 0) await rm(folder, { recursive: true, force: true });
      else process.stderr.write(`kept for inspection: ${folder}\n`);
    },
  };
}

function npmStart(command: string, env: NodeJS.ProcessEnv, home: string, log: string): NpmStart {
  const child = spawnLogged(command, env, log);
  const ready = () => {
    if (hasEnded(child)) return 'ended';
    const dev = readDev(env.CARILLON_HOME ?? home);
    return dev?.ready === true && dev;
  };
  const stderr = () => readFileSync(`${log}.err`, 'utf8');
  return {
    pid: child.pid ?? 0,
    stdout: () => readFileSync(`${log}.out`, 'utf8'),
    stderr,
    async ready() {
      const dev = await until(ready, { timeoutMs: READY_MS, everyMs: 50, what: 'ready' });
      if (dev === 'ended')
        throw new Error(`npm start ended with ${exitCodeOf(child)}: ${stderr()}`);
      return dev;
    },
    signal: (signal) => void child.kill(signal),
    async exit() {
      if (!hasEnded(child)) await once(child, 'exit', { signal: AbortSignal.timeout(EXIT_MS) });
      return exitCodeOf(child);
    },
  };
}

function spawnLogged(command: string, env: NodeJS.ProcessEnv, log: string): ChildProcess {
  const [out, err] = [openSync(`${log}.out`, 'a'), openSync(`${log}.err`, 'a')];
  const args = ['tools/supervisor/bootstrap.mjs', command];
  const child = spawn(process.execPath, args, { cwd: ROOT, env, stdio: ['ignore', out, err] });
  closeSync(out);
  closeSync(err);
  return child;
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

function exitCodeOf({ exitCode, signalCode }: ChildProcess): number {
  return exitCode ?? 128 + constants.signals[signalCode ?? 'SIGKILL'];
}

/** Checks whether the home contains a file or folder of that name. */
export function hasFile({ home }: Pick<TestHome, 'home'>, name: string): boolean {
  return existsSync(join(home, name));
}

/** The text of a file in the home folder; empty as long as there is none. */
export function readHomeFile({ home }: Pick<TestHome, 'home'>, name: string): string {
  return hasFile({ home }, name) ? readFileSync(join(home, name), 'utf8') : '';
}
