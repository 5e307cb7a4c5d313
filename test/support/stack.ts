import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createDataFolder } from './data-folder.ts';
import { type ApiResponse, callApi } from './stack/call-api.ts';
import { type Dev, findProcess, readDev } from './stack/dev-file.ts';
import { type StackOptions, stackEnv } from './stack/env.ts';
import { isAlive, readChildPids, readStartTime } from './stack/processes.ts';
import { startStackMongodb } from './topologies/stack-mongodb.ts';
import { startStackRedis } from './topologies/stack-redis.ts';
import { until } from './until.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** The script that `npm start` runs. */
const START_SCRIPT = 'tools/supervisor/bootstrap.mjs';
/** What the supervisor prints, in the stack's folder. */
const OUTPUT = 'output.log';
/** Guards against hanging, not what a stack takes. */
const START_MS = 150_000;
const STOP_MS = 60_000;
const RESTART_MS = 150_000;
const PROBE_MS = 5_000;

/** A whole stack, started as a user starts it, with a home folder and ports of its own. */
export interface Stack {
  /** The stack's description when it was ready. */
  readonly dev: Dev;
  /** The folder of its data, secrets and logs. */
  readonly home: string;
  /** Calls the API with the stack's key; an object as body is sent as JSON. */
  api<T = Record<string, unknown>>(
    method: string,
    path: string,
    body?: unknown,
  ): Promise<ApiResponse<T>>;
  /** The process that runs now, after a restart the new one. */
  pidOf(service: string, index?: number): number;
  /** Sends a signal. Returns the pid of the process. */
  kill(service: string, signal: NodeJS.Signals, index?: number): number;
  /** Waits until another process than `oldPid` has replaced it and is ready. Returns its pid. */
  waitForRestart(service: string, oldPid: number, index?: number): Promise<number>;
  readLog(service: string, index?: number): string;
  /** Returns the output of `npm start`. */
  output(): string;
  /**
   * Stops the stack and removes its folder, unless a test of this file failed. Twice is harmless.
   *
   * @throws when the stack did not end well or left a process behind.
   */
  stop(): Promise<void>;
}

/**
 * Starts a stack and waits until it is ready.
 *
 * @param lentFolder folder of a stack that outlives the test file, so it is no open handle
 * @throws with the end of its output when it does not get ready.
 */
export async function startStack(options: StackOptions = {}, lentFolder?: string): Promise<Stack> {
  const isLent = lentFolder !== undefined;
  const folder = lentFolder ?? (await createDataFolder());
  const home = join(folder, 'home');
  const mongodb = await startStackMongodb(options, isLent);
  const redis = await startStackRedis(options, isLent);
  const child = spawnSupervisor(
    await stackEnv(home, { ...options, env: { ...mongodb?.env, ...redis?.env, ...options.env } }),
    join(folder, OUTPUT),
  );
  if (isLent) child.unref();
  const output = () => readFileSync(join(folder, OUTPUT), 'utf8');
  const seenProcesses = new Map<number, string | undefined>();
  const recordAll = (dev?: Dev) => {
    for (const { pid } of dev?.processes ?? []) recordProcess(seenProcesses, pid);
    return dev;
  };
  const stopAndCleanUp = async () => {
    recordAll(readDev(home));
    try {
      await stopCleanly(child, seenProcesses);
    } catch (error) {
      recordFailure();
      throw new Error(`the stack did not end well:\n${lastLines(output())}`, { cause: error });
    } finally {
      await redis?.remove();
      await mongodb?.remove();
      await cleanUp(folder);
    }
  };
  const failWithOutput = async (error: unknown) => {
    recordFailure();
    await stopAndCleanUp().catch(() => undefined);
    throw new Error(`the stack did not start:\n${lastLines(output())}`, { cause: error });
  };
  const hasEndedEarly = () => hasEnded(child) && `npm start ended with ${child.exitCode}`;
  const stack = await openStack(folder, hasEndedEarly, recordAll).catch(failWithOutput);
  let stopped: Promise<void> | undefined;
  return {
    ...stack,
    stop() {
      stopped ??= stopAndCleanUp();
      return stopped;
    },
  };
}

/**
 * Opens a stack that is starting or that runs, and waits until it is ready.
 *
 * @param failure tells why it will never be
 * @param onDev called with each description of it that is read
 */
export async function openStack(
  folder: string,
  failure: () => string | false = () => false,
  onDev = (dev?: Dev) => dev,
): Promise<Omit<Stack, 'stop'>> {
  const home = join(folder, 'home');
  const pollDevFile = () => onDev(readDev(home));
  const ready = () => {
    const reason = failure();
    if (reason !== false) return reason;
    const dev = pollDevFile();
    return dev?.ready === true && dev;
  };
  const dev = await until(ready, { timeoutMs: START_MS, everyMs: 50, what: 'a ready dev.json' });
  if (typeof dev === 'string') throw new Error(dev);
  return {
    dev,
    home,
    output: () => readFileSync(join(folder, OUTPUT), 'utf8'),
    ...processesOf(pollDevFile),
    api: (method, path, body) => callApi(dev, method, path, body),
    readLog: (service, index = 0) => readFileSync(`${home}/logs/${service}-${index}.log`, 'utf8'),
  };
}

function spawnSupervisor(env: NodeJS.ProcessEnv, log: string): ChildProcess {
  const file = openSync(log, 'a');
  const child = spawn(process.execPath, [START_SCRIPT, 'start'], {
    cwd: ROOT,
    env,
    stdio: ['ignore', file, file],
  });
  closeSync(file);
  return child;
}

function processesOf(pollDevFile: () => Dev | undefined) {
  const pidOf = (service: string, index = 0) => findProcess(pollDevFile(), service, index).pid;
  return {
    pidOf,
    kill(service: string, signal: NodeJS.Signals, index = 0) {
      const pid = pidOf(service, index);
      process.kill(pid, signal);
      return pid;
    },
    waitForRestart(service: string, oldPid: number, index = 0) {
      const restarted = async () => {
        const { pid, ops } = findProcess(pollDevFile(), service, index);
        if (pid === oldPid || !isAlive(pid)) return false;
        if (ops === undefined) return pid;
        const signal = AbortSignal.timeout(PROBE_MS);
        return (await fetch(`${ops}/readyz`, { signal })).ok && pid;
      };
      const what = `${service}-${index} restarted`;
      return until(restarted, { timeoutMs: RESTART_MS, everyMs: 50, what });
    },
  };
}

type SeenProcesses = Map<number, string | undefined>;

function recordProcess(seenProcesses: SeenProcesses, pid: number): void {
  if (!seenProcesses.has(pid)) seenProcesses.set(pid, readStartTime(pid));
}

async function stopCleanly(child: ChildProcess, seenProcesses: SeenProcesses): Promise<void> {
  if (!hasEnded(child)) {
    child.ref();
    for (const pid of readChildPids(child.pid ?? 0)) recordProcess(seenProcesses, pid);
    const exited = once(child, 'exit', { signal: AbortSignal.timeout(STOP_MS) });
    child.kill('SIGTERM');
    await exited.catch(() => child.kill('SIGKILL'));
  }
  const left = await findOrphans(seenProcesses);
  for (const pid of left) process.kill(pid, 'SIGKILL');
  if (left.length > 0) throw new Error(`processes left behind: ${left.join(', ')}`);
  if (child.exitCode !== 0) {
    throw new Error(`npm start ended with ${child.exitCode ?? child.signalCode}`);
  }
}

/** Returns the processes that still run after a moment: the last ones may have got their signal just now. */
async function findOrphans(seenProcesses: SeenProcesses): Promise<number[]> {
  const left = () => {
    const alive = [...seenProcesses].filter(
      ([pid, identity]) => identity !== undefined && readStartTime(pid) === identity,
    );
    return alive.map(([pid]) => pid);
  };
  await until(() => left().length === 0, { timeoutMs: 10_000 }).catch(() => undefined);
  return left();
}

function recordFailure(): void {
  globalThis.failures = (globalThis.failures ?? 0) + 1;
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

async function cleanUp(folder: string): Promise<void> {
  if ((globalThis.failures ?? 0) === 0) await rm(folder, { recursive: true, force: true });
  else process.stderr.write(`kept for inspection: ${folder}\n`);
}

function lastLines(text: string): string {
  return text.split('\n').slice(-40).join('\n');
}
