import type { Stack } from '../stack.ts';

/** One process of a stack. */
export interface Held {
  service: string;
  index?: number;
}

/**
 * Freezes processes (SIGSTOP) while something is done, and lets them go on whatever comes of it.
 * A frozen process keeps its connections and what it holds, and does nothing.
 */
export async function whileHeld<T>(
  stack: Pick<Stack, 'pidOf'>,
  held: readonly Held[],
  work: () => Promise<T>,
): Promise<T> {
  const pids = held.map(({ service, index }) => stack.pidOf(service, index));
  for (const pid of pids) process.kill(pid, 'SIGSTOP');
  try {
    return await work();
  } finally {
    for (const pid of pids) process.kill(pid, 'SIGCONT');
  }
}
