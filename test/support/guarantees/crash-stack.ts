import { readFileSync } from 'node:fs';
import { isAlive } from '../stack/processes.ts';
import type { Stack } from '../stack.ts';
import { until } from '../until.ts';

/**
 * Kills every process of a stack at once (SIGKILL), Redis and MongoDB too, keeps all of them down while
 * `whileDown` lasts, and resolves when the whole stack is ready again.
 *
 * @param spared services that keep running
 */
export async function crashAndRecover(
  stack: Stack,
  whileDown: () => Promise<unknown>,
  spared: readonly string[] = [],
): Promise<void> {
  const services = new Set(stack.dev.processes.map(({ service }) => service));
  await whileDead(
    stack,
    [...services].filter((one) => !spared.includes(one)),
    whileDown,
  );
}

/** Kills all processes of some services (SIGKILL), keeps them down during a task, and resolves when they are ready again. */
export async function whileDead<T>(
  stack: Stack,
  services: readonly string[],
  task: () => Promise<T>,
): Promise<T> {
  const processes = stack.dev.processes.filter(({ service }) => services.includes(service));
  const old = processes.map((one) => ({ ...one, pid: stack.pidOf(one.service, one.index) }));
  const supervisor = readParentPid(old[0]?.pid ?? 0);
  // A supervisor that can't move starts nothing again.
  process.kill(supervisor, 'SIGSTOP');
  try {
    for (const { pid } of old) process.kill(pid, 'SIGKILL');
    await until(() => old.every(({ pid }) => !isAlive(pid)));
    return await task();
  } finally {
    process.kill(supervisor, 'SIGCONT');
    await Promise.all(old.map((one) => stack.waitForRestart(one.service, one.pid, one.index)));
  }
}

/** proc(5): the field behind the state is the parent's pid. */
function readParentPid(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
}
