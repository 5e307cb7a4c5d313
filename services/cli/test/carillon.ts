import { run, type Surroundings } from '../src/program.ts';

/** How a command line ended. */
export interface Ended {
  code: number;
  out: string;
  err: string;
}

/** What a test may change of a command's surroundings. */
export interface Around {
  env?: NodeJS.ProcessEnv;
  signal?: AbortSignal;
  onOut?(text: string): void;
}

/** Runs a command line in this process, with nothing of this process's environment. */
export async function carillon(args: string[], around: Around = {}): Promise<Ended> {
  const ended: Ended = { code: -1, out: '', err: '' };
  const surroundings: Surroundings = {
    env: { CARILLON_HOME: '/nonexistent', ...around.env },
    nodeVersion: '24.0.0',
    version: '1.2.3',
    out: (text) => {
      ended.out += text;
      around.onOut?.(text);
    },
    err: (text) => {
      ended.err += text;
    },
    stopSignal: () => around.signal ?? new AbortController().signal,
  };
  ended.code = await run(args, surroundings);
  return ended;
}
