import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const DEADLINE_MS = 40_000;
const INHERITED = ['PATH', 'HOME'];

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
  const inherited = INHERITED.map((name) => [name, process.env[name] ?? '']);
  return new Promise((resolve) => {
    const child = execFile(
      process.execPath,
      ['services/cli/src/main.ts', ...args],
      {
        cwd: ROOT,
        timeout: DEADLINE_MS,
        env: { ...Object.fromEntries(inherited), CARILLON_HOME: home, ...env },
      },
      (_error, stdout, stderr) => resolve({ code: child.exitCode ?? -1, stdout, stderr }),
    );
  });
}

/**
 * Runs `carillon --json ARGS` and gives its answer. `T` is what the test expects; nothing checks it.
 *
 * @throws when it doesn't end with 0, or prints anything but one JSON value.
 */
export async function askCarillon<T = Record<string, unknown>>(
  home: string,
  ...args: string[]
): Promise<T> {
  const { code, stdout, stderr } = await runCarillon(home, ['--json', ...args]);
  if (code !== 0) throw new Error(`carillon ${args.join(' ')}: ${code} ${stderr}`);
  return JSON.parse(stdout) as T;
}

/** Lifts the limit of requests per minute from the account of the stack's app. */
export async function liftRateLimit(stack: { home: string; dev: { app: string } }): Promise<void> {
  const { account } = await askCarillon<{ account: string }>(
    stack.home,
    'app',
    'show',
    stack.dev.app,
  );
  await askCarillon(stack.home, 'account', 'limit', account, 'unlimited');
}
