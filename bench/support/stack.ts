import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { freePortBase } from './free-ports.ts';
import { until } from './until.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const START_MS = 60_000;
const STOP_MS = 40_000;
const execFileAsync = promisify(execFile);

/** Content of a stack's `dev.json`. */
export interface Dev {
  ready: boolean;
  api: string;
  app: string;
  apiKey: string;
  mqtt: string;
  sandbox: string;
  mongodb: string;
  redis: string;
  processes: { service: string; index: number; pid: number; ops?: string }[];
}

/** A stack started by the benchmark. */
export interface Stack {
  dev: Dev;
  /** Folder of its data and secrets. */
  home: string;
  /** Pid of `npm start`, whose first child is the supervisor. */
  pid: number;
  /** Stops the stack and removes its folder. A second call does nothing. */
  stop(): Promise<void>;
}

/**
 * Starts a stack as `npm start` does, without rate limits, and waits until it is ready.
 *
 * @throws with the end of its output when it is not ready within a minute
 */
export async function startStack({
  gateways,
  env = {},
}: {
  gateways: number;
  /** Further variables of `npm start`, which override the others. */
  env?: Record<string, string>;
}): Promise<Stack> {
  const folder = await mkdtemp(join(tmpdir(), 'carillon-bench-'));
  const home = join(folder, 'home');
  const all = { ...(await stackEnv(home, gateways)), ...env };
  const child = spawnSupervisor(all, join(folder, 'output.log'));
  let stopped: Promise<void> | undefined;
  // In case of an uncaught exception.
  const stopOnExit = () => void child.kill('SIGTERM');
  process.once('exit', stopOnExit);
  const stop = () => {
    process.off('exit', stopOnExit);
    stopped ??= stopProcess(child).finally(() => rm(folder, { recursive: true, force: true }));
    return stopped;
  };
  try {
    const isReady = () => child.exitCode !== null || readDev(home)?.ready === true;
    await until('a stack that is ready', isReady, { timeoutMs: START_MS });
    const dev = readDev(home);
    if (dev === undefined) throw new Error('npm start has ended');
    await liftLimits(home, dev);
    return { dev, home, pid: child.pid ?? 0, stop };
  } catch (cause) {
    const output = readFileSync(join(folder, 'output.log'), 'utf8');
    await stop();
    throw new Error(`the stack did not start:\n${output.slice(-4_000)}`, { cause });
  }
}

async function stackEnv(home: string, gateways: number): Promise<NodeJS.ProcessEnv> {
  const { REDIS_URL: _redis, MONGODB_URI: _mongodb, ...inherited } = process.env;
  return {
    ...inherited,
    CARILLON_HOME: home,
    CARILLON_PORT_BASE: String(await freePortBase()),
    CARILLON_HOST: '127.0.0.1',
    CARILLON_DEMO: '0',
    CARILLON_ADDRESS_LIMITS: 'off',
    CARILLON_DEVICE_GATEWAYS: String(gateways),
    // For a profiler of the services; it must not apply to the benchmark itself.
    ...(process.env.STACK_NODE_OPTIONS && { NODE_OPTIONS: process.env.STACK_NODE_OPTIONS }),
  };
}

function spawnSupervisor(env: NodeJS.ProcessEnv, log: string): ChildProcess {
  const file = openSync(log, 'a');
  const child = spawn(process.execPath, ['tools/supervisor/bootstrap.mjs', 'start'], {
    cwd: ROOT,
    env,
    stdio: ['ignore', file, file],
  });
  closeSync(file);
  return child;
}

/** Reads the current `dev.json` of a stack; undefined while there is none. */
function readDev(home: string): Dev | undefined {
  try {
    return JSON.parse(readFileSync(join(home, 'dev.json'), 'utf8')) as Dev;
  } catch {
    return undefined;
  }
}

async function liftLimits(home: string, { app }: Dev): Promise<void> {
  const shown = await carillon(home, 'app', 'show', app);
  const { account } = JSON.parse(shown) as { account: string };
  await carillon(home, 'account', 'limit', account, 'unlimited');
}

/** Creates an app of an account of its own, without rate limits. @returns the stack as that app sees it */
export async function addTenant({ home, dev, ...stack }: Stack): Promise<Stack> {
  const created = await carillon(home, 'account', 'create', 'other', '--plan', 'pro');
  const { id: account } = JSON.parse(created) as { id: string };
  const shown = await carillon(home, 'app', 'create', 'other', '--account', account);
  const { id: app, apiKey } = JSON.parse(shown) as { id: string; apiKey: string };
  await liftLimits(home, { ...dev, app });
  return { ...stack, home, dev: { ...dev, app, apiKey } };
}

async function carillon(home: string, ...args: string[]): Promise<string> {
  const { stdout } = await execFileAsync(
    process.execPath,
    ['services/cli/src/main.ts', '--json', ...args],
    {
      cwd: ROOT,
      env: { ...process.env, CARILLON_HOME: home },
    },
  );
  return stdout;
}

/** Stops a stack, and kills it when it does not end in time; its processes end with it. */
async function stopProcess(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit', { signal: AbortSignal.timeout(STOP_MS) });
  child.kill('SIGTERM');
  await exited.catch(() => child.kill('SIGKILL'));
}
