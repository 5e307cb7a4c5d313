import { PassThrough } from 'node:stream';
import { type CliContext, run } from '../src/program.ts';

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
  const context: CliContext = {
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
  result.code = await run(args, context);
  return result;
}
