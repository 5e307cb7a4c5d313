import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { until } from '../../../test/support/until.ts';
import type { CountingOrder } from './counting-process.ts';

/** A process that adds to the figures. */
export interface CountingProcess {
  count(order: CountingOrder): void;
  /** Lines of its output so far. */
  said: string[];
  /** Lets it send its last counts and end by itself; returns the milliseconds that sending took. */
  stop(): Promise<number>;
}

const INTERVAL_MS = 20;
const processes = new Set<ChildProcess>();

/** Starts a process that adds what it counts every 20 ms. */
export async function startCounting(url: string): Promise<CountingProcess> {
  const file = new URL('./counting-process.ts', import.meta.url);
  const child = fork(file, [url, `${INTERVAL_MS}`], { execArgv: [], serialization: 'advanced' });
  processes.add(child);
  const said: string[] = [];
  child.on('message', (text) => said.push(String(text)));
  await until(() => said.includes('started'), { what: 'the counting process starts' });
  return {
    said,
    count: (order) => void child.send(order),
    async stop() {
      const exited = once(child, 'exit');
      child.send({ stop: true } satisfies CountingOrder);
      await exited;
      processes.delete(child);
      return Number(
        said
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
