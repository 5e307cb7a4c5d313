import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';

const execFileAsync = promisify(execFile);
const INSTALL_MS = 240_000;

/** Installs a package of PyPI with its dependencies into a folder of its own. */
export async function installPythonPackage(folder: string, requirement: string): Promise<void> {
  // One word: after ` -m pip ` pyenv writes its shims again, and two that do so at once fail.
  const args = ['-mpip', 'install', '--quiet', '--target', folder, requirement];
  await execFileAsync('python3', args, { timeout: INSTALL_MS });
}

/** Runs a program to its end. */
export function runPython(
  args: readonly string[],
  { cwd, env }: { cwd: string; env: Record<string, string> },
): Promise<{ code: number | null; output: string }> {
  return new Promise((resolve) => {
    const program = execFile(
      'python3',
      args,
      { cwd, env: { PATH: process.env.PATH, HOME: cwd, ...env }, maxBuffer: 64 * 1024 * 1024 },
      (_error, stdout, stderr) =>
        resolve({ code: program.exitCode, output: `${stdout}\n${stderr}` }),
    );
  });
}

export type PythonProgram = ReturnType<typeof startPython>;

/** Starts a program; its working folder is where it keeps its files. */
export function startPython(
  args: readonly string[],
  { cwd, env }: { cwd: string; env: Record<string, string> },
) {
  const program: ChildProcess = spawn('python3', args, {
    cwd,
    env: { PATH: process.env.PATH ?? '', HOME: cwd, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const printed: Record<string, unknown>[] = [];
  if (program.stdout !== null) {
    createInterface(program.stdout).on('line', (line) => {
      if (line.startsWith('{')) printed.push(JSON.parse(line));
    });
  }
  const ended = once(program, 'exit');
  return {
    /** JSON lines that it has printed. */
    printed: printed as readonly Record<string, unknown>[],
    async stop(): Promise<void> {
      program.kill('SIGKILL');
      await ended;
    },
  };
}
