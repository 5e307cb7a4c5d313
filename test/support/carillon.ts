import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { runCarillon as runInProcess } from '../../services/cli/test/run-carillon.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const TIMEOUT_MS = 40_000;
const INHERITED_VARIABLES = ['PATH', 'HOME', 'NODE_COMPILE_CACHE'];

/** How a run of the command line ended. */
export interface CarillonRun {
  code: number;
  stdout: string;
  stderr: string;
}

/** Runs `carillon ARGS` for the stack of a folder, as an operator does. */
export function runCarillon(
  home: string,
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<CarillonRun> {
  const inherited = INHERITED_VARIABLES.map((name) => [name, process.env[name] ?? '']);
  return new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      ['services/cli/src/main.ts', ...args],
      {
        cwd: ROOT,
        timeout: TIMEOUT_MS,
        env: { ...Object.fromEntries(inherited), CARILLON_HOME: home, ...env },
      },
      (_error, stdout, stderr) => resolve({ code: child.exitCode ?? -1, stdout, stderr }),
    );
  });
}

/** Runs `carillon ARGS` in the test's process: the same code, without the second that a process of its own takes. */
export async function runCarillonHere(
  home: string,
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<CarillonRun> {
  const { code, out, err } = await runInProcess([...args], {
    env: { CARILLON_HOME: home, ...env },
  });
  return { code, stdout: out, stderr: err };
}

/**
 * Returns the output of `carillon --json ARGS`, without the second that a process of its own takes.
 * `T` is what the test expects; nothing checks it.
 *
 * @throws when it doesn't end with 0, or prints anything but one JSON value.
 */
export async function runCarillonJson<T = Record<string, unknown>>(
  home: string,
  ...args: string[]
): Promise<T> {
  const { code, stdout, stderr } = await runCarillonHere(home, ['--json', ...args]);
  if (code !== 0) throw new Error(`carillon ${args.join(' ')}: ${code} ${stderr}`);
  return JSON.parse(stdout) as T;
}

/** Lifts the limit of requests per minute from the account of the stack's app. */
export async function removeRateLimit(stack: {
  home: string;
  dev: { app: string };
}): Promise<void> {
  const { account } = await runCarillonJson<{ account: string }>(
    stack.home,
    'app',
    'show',
    stack.dev.app,
  );
  await runCarillonJson(stack.home, 'account', 'limit', account, 'unlimited');
}
