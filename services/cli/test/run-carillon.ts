import { PassThrough } from 'node:stream';
import { listCommands } from '../src/examples.ts';
import { createOutput } from '../src/output.ts';
import { type CliContext, createProgram, run } from '../src/program.ts';

/** Result of a command line. */
export interface CliResult {
  code: number;
  out: string;
  err: string;
}

/** Environment of a command line in a test. */
export interface CliOptions {
  env?: NodeJS.ProcessEnv;
  signal?: AbortSignal;
  /** Standard error for progress bars; no terminal if absent. */
  terminal?: NodeJS.WritableStream;
  onOut?(text: string): void;
}

/** Runs a command line in this process, without this process's environment variables. */
export async function runCarillon(args: string[], options: CliOptions = {}): Promise<CliResult> {
  const result: CliResult = { code: -1, out: '', err: '' };
  result.code = await run(args, createContext(options, result));
  return result;
}

/** Lists the words of all commands. */
export function listCommandPaths(): string[] {
  const context = createContext({}, { out: '', err: '' });
  const program = createProgram(
    context,
    createOutput(context.out, () => false),
  );
  return listCommands(program).map(({ path }) => path);
}

function createContext(options: CliOptions, result: Pick<CliResult, 'out' | 'err'>): CliContext {
  return {
    env: { CARILLON_HOME: '/nonexistent', ...options.env },
    nodeVersion: '24.0.0',
    version: '1.2.3',
    out: (text) => {
      result.out += text;
      options.onOut?.(text);
    },
    err: (text) => {
      result.err += text;
    },
    terminal: options.terminal ?? new PassThrough(),
    stopSignal: () => options.signal ?? new AbortController().signal,
  };
}
