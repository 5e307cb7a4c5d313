import { readFileSync } from 'node:fs';
import { isAlive } from '../stack/processes.ts';
import type { Stack } from '../stack.ts';
import { until } from '../until.ts';

const RECOVERY_MS = 60_000;

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
  const processes = stack.dev.processes.filter(({ service }) => !spared.includes(service));
  const old = processes.map((one) => ({ ...one, pid: stack.pidOf(one.service, one.index) }));
  const supervisor = readParentPid(old[0]?.pid ?? 0);
  // A supervisor that can't move starts nothing again.
  process.kill(supervisor, 'SIGSTOP');
  try {
    for (const { pid } of old) process.kill(pid, 'SIGKILL');
    await until(() => old.every(({ pid }) => !isAlive(pid)));
    await whileDown();
  } finally {
    process.kill(supervisor, 'SIGCONT');
  }
  await Promise.all(
    old.map(({ service, index, pid, ops }) =>
      until(() => isReady(stack, { service, index, pid, ops }), {
        timeoutMs: RECOVERY_MS,
        everyMs: 100,
        what: `${service}-${index} ready again`,
      }),
    ),
  );
}

interface CrashedProcess {
  service: string;
  index: number;
  pid: number;
  ops?: string | undefined;
}

async function isReady(
  stack: Pick<Stack, 'pidOf'>,
  { service, index, pid, ops }: CrashedProcess,
): Promise<boolean> {
  if (stack.pidOf(service, index) === pid) return false;
  return ops === undefined || (await fetch(`${ops}/readyz`)).ok;
}

/** proc(5): the field behind the state is the parent's pid. */
function readParentPid(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
}
