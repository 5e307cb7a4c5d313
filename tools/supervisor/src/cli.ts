import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { z } from 'zod';
import { UserError } from '../bootstrap/terminal.mjs';
import type { DataDir } from './data-dir.ts';
import { type Secrets, saveSecrets } from './secrets.ts';

/** Timeout of a command, in milliseconds. */
const TIMEOUT_MS = 90_000;
/** Exit code of a command that can't reach a server. */
const EXIT_UNREACHABLE = 3;
const demoAppSchema = z.object({
  app: z.string(),
  account: z.string().optional(),
  apiKey: z.string().optional(),
});
const runFile = promisify(execFile);

const setUpSchema = z.object({ link: z.string().optional() });

/** The app of the demo. */
export interface Tenant {
  app: string;
  apiKey: string;
}

/** Runs `carillon --json ARGS` and returns the value that it prints. */
type RunCli = (operation: string, ...args: string[]) => Promise<unknown>;

/** Creates a runner of the command line; `signal` ends the command that is running. */
export function createCliRunner(root: string, env: NodeJS.ProcessEnv, signal: AbortSignal): RunCli {
  const main = join(root, 'services/cli/src/main.ts');
  return async (operation, ...args) => {
    const options = { cwd: root, env, signal, timeout: TIMEOUT_MS };
    try {
      const { stdout } = await runFile(process.execPath, [main, '--json', ...args], options);
      return JSON.parse(stdout);
    } catch (error) {
      throw signal.aborted ? new UserError('Stopped.') : createCliError(operation, error);
    }
  };
}

function createCliError(operation: string, error: unknown): UserError {
  const { code, stderr = '' } = error as { code?: unknown; stderr?: string };
  const lines = (stderr.trim() || String(error)).split('\n').slice(-5);
  const output = lines.length === 1 ? ` ${lines[0]}` : `\n  ${lines.join('\n  ')}`;
  const cause = code === EXIT_UNREACHABLE ? 'a server can’t be reached' : `exit code ${code}`;
  return new UserError(`${operation} failed (${cause}):${output}`);
}

/** Migrates the database's indexes and documents to this version. */
export async function migrate(runCli: RunCli): Promise<void> {
  await runCli('Preparing the database', 'migrate');
}

/**
 * Returns the demo app. Creates it at the first start, and again when the database no longer has it
 * (it was emptied, or MONGODB_URI names another database).
 */
export async function ensureTenant(
  runCli: RunCli,
  dataDir: DataDir,
  secrets: Secrets,
): Promise<Tenant> {
  const isKnown = secrets.app !== undefined && secrets.apiKey !== undefined;
  const existing = isKnown ? ['--existing', secrets.app ?? ''] : [];
  const demo = demoAppSchema.parse(
    await runCli('Preparing the demo app', 'app', 'demo', ...existing),
  );
  const { app, apiKey = secrets.apiKey ?? '' } = demo;
  if (demo.apiKey !== undefined) saveSecrets(dataDir, { ...secrets, ...demo });
  return { app, apiKey };
}

/** Creates a link that creates the console's first operator, unless there is one. */
export async function createSetUpLink(
  runCli: RunCli,
  consoleUrl: string,
): Promise<{ setup?: string }> {
  const result = await runCli(
    'Preparing the console',
    'operator',
    'set-up',
    '--console',
    consoleUrl,
  );
  const { link } = setUpSchema.parse(result);
  return link === undefined ? {} : { setup: link };
}
