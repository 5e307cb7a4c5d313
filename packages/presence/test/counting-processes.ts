import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { until } from '../../../test/support/until.ts';
import type { CountingCommand } from './counting-process.ts';

/** A process that adds to the figures. */
export interface CountingProcess {
  count(command: CountingCommand): void;
  /** Lines of its output so far. */
  output: string[];
  /** Makes it send its last counts and exit; returns the milliseconds that sending took. */
  stop(): Promise<number>;
}

const INTERVAL_MS = 20;
const processes = new Set<ChildProcess>();

/** Starts a process that adds what it counts every 20 ms. */
export async function startCounting(url: string): Promise<CountingProcess> {
  const file = new URL('./counting-process.ts', import.meta.url);
  const child = fork(file, [url, `${INTERVAL_MS}`], { execArgv: [], serialization: 'advanced' });
  processes.add(child);
  const output: string[] = [];
  child.on('message', (text) => output.push(String(text)));
  await until(() => output.includes('started'), { what: 'the counting process starts' });
  return {
    output,
    count: (command) => void child.send(command),
    async stop() {
      const exited = once(child, 'exit');
      child.send({ stop: true } satisfies CountingCommand);
      await exited;
      processes.delete(child);
      return Number(
        output
          .find((text) => text.startsWith('stopped in'))
          ?.split(' ')
          .at(-1),
      );
    },
  };
}

/** Ends the processes that a failed test has left. */
export function killCounting(): void {
  for (const child of processes) child.kill('SIGKILL');
  processes.clear();
}
