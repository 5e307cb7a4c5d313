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
const preparedSchema = z.object({
  app: z.string(),
  account: z.string().optional(),
  apiKey: z.string().optional(),
  link: z.string().optional(),
});
const runFile = promisify(execFile);

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

/**
 * Prepares the database: updates its schema, ensures the demo app, and with a console's URL makes the link that creates its
 * first operator, unless there is one. The app is created at the first start, and again when the database no longer has it
 * (it was emptied, or MONGODB_URI names another database).
 */
export async function prepareDatabase(
  runCli: RunCli,
  dataDir: DataDir,
  secrets: Secrets,
  consoleUrl: string | undefined,
): Promise<Tenant & { setup?: string }> {
  const isKnown = secrets.app !== undefined && secrets.apiKey !== undefined;
  const existing = isKnown ? ['--existing', secrets.app ?? ''] : [];
  const console = consoleUrl === undefined ? [] : ['--console', consoleUrl];
  const { link, ...demo } = preparedSchema.parse(
    await runCli('Preparing the database', 'prepare', ...existing, ...console),
  );
  const { app, apiKey = secrets.apiKey ?? '' } = demo;
  if (demo.apiKey !== undefined) saveSecrets(dataDir, { ...secrets, ...demo });
  return { app, apiKey, ...(link !== undefined && { setup: link }) };
}
