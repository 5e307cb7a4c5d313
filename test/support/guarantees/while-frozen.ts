import { readdirSync, readFileSync } from 'node:fs';
import type { Stack } from '../stack.ts';
import { until } from '../until.ts';

/** One process of a stack. */
export interface FrozenProcess {
  service: string;
  index?: number;
}

/** Every process of a service that has two, as on the stacks that files share. */
export const bothOf = (service: string): FrozenProcess[] => [
  { service, index: 0 },
  { service, index: 1 },
];

/**
 * Freezes processes (SIGSTOP) during a task, and resumes them after it, also if it fails.
 * A frozen process keeps its connections and claims, and does nothing.
 */
export async function whileFrozen<T>(
  stack: Pick<Stack, 'pidOf'>,
  processes: readonly FrozenProcess[],
  task: () => Promise<T>,
): Promise<T> {
  const pids = processes.map(({ service, index }) => stack.pidOf(service, index));
  for (const pid of pids) process.kill(pid, 'SIGSTOP');
  try {
    // The signal stops one thread, which then stops the others: on a busy machine one may still respond to a request.
    await until(() => pids.every(isStopped), { everyMs: 5 });
    return await task();
  } finally {
    for (const pid of pids) process.kill(pid, 'SIGCONT');
  }
}

/** Checks whether all threads of a process are stopped; proc(5), which other systems than Linux do not have. */
function isStopped(pid: number): boolean {
  if (process.platform !== 'linux') return true;
  const tasks = `/proc/${pid}/task`;
  return readdirSync(tasks).every((id) =>
    /\) T /.test(readFileSync(`${tasks}/${id}/stat`, 'latin1')),
  );
}
