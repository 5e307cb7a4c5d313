import type { Stack } from '../stack.ts';

/** One process of a stack. */
export interface FrozenProcess {
  service: string;
  index?: number;
}

/**
 * Freezes processes (SIGSTOP) while something is done, and lets them go on whatever comes of it.
 * A frozen process keeps its connections and what it holds, and does nothing.
 */
export async function whileFrozen<T>(
  stack: Pick<Stack, 'pidOf'>,
  processes: readonly FrozenProcess[],
  task: () => Promise<T>,
): Promise<T> {
  const pids = processes.map(({ service, index }) => stack.pidOf(service, index));
  for (const pid of pids) process.kill(pid, 'SIGSTOP');
  try {
    return await task();
  } finally {
    for (const pid of pids) process.kill(pid, 'SIGCONT');
  }
}
