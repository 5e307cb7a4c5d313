import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { Refusal } from './refusal.ts';

const DEADLINE_MS = 90_000;
const UNREACHABLE = 3;

/** How a run of the command line ended. */
export interface Answer {
  code: number | null;
  stdout: string;
  stderr: string;
}

/** Runs `carillon ARGS` to its end. */
export type Carillon = (...args: string[]) => Promise<Answer>;

/** Makes the runner; `signal` ends whatever runs. */
export function createCarillon(
  root: string,
  env: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Carillon {
  return (...args) =>
    new Promise((resolve, reject) => {
      const child = spawn(process.execPath, [join(root, 'services/cli/src/main.ts'), ...args], {
        cwd: root,
        env,
        stdio: ['ignore', 'pipe', 'pipe'],
        detached: true,
        signal,
        timeout: DEADLINE_MS,
      });
      const answer: Answer = { code: null, stdout: '', stderr: '' };
      child.stdout.on('data', (text) => {
        answer.stdout += text;
      });
      child.stderr.on('data', (text) => {
        answer.stderr += text;
      });
      child.once('error', (error) => reject(signal.aborted ? new Refusal('Stopped.') : error));
      child.once('close', (code) => resolve({ ...answer, code }));
    });
}

/**
 * The one JSON value that a command with --json printed.
 * @throws {Refusal} when the command failed, with its own words
 */
export function jsonOf(what: string, { code, stdout, stderr }: Answer): unknown {
  if (code === 0) return JSON.parse(stdout);
  throw commandRefusal(what, { code, stdout, stderr });
}

/** The sentence for a command that failed. */
export function commandRefusal(what: string, { code, stdout, stderr }: Answer): Refusal {
  const lines = `${stderr}${stdout}`.trim().split('\n').slice(-5);
  const words = lines.length === 1 ? ` ${lines[0]}` : `\n  ${lines.join('\n  ')}`;
  const why = code === UNREACHABLE ? 'a server can’t be reached' : `exit code ${code}`;
  return new Refusal(`${what} failed (${why}):${words}`);
}
