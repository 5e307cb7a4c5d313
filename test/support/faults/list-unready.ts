import { setTimeout as sleep } from 'node:timers/promises';
import { probe } from '../operators/service-process.ts';

const PROBE_EVERY_MS = 1_000;

/**
 * Requests the readiness of processes again and again during a task, as their orchestrator does. Returns every response other
 * than 200, and the processes that never responded.
 */
export async function listUnreadyDuring(
  processes: readonly { ops?: string }[],
  task: () => Promise<void>,
): Promise<readonly string[]> {
  const urls = processes.flatMap(({ ops }) => (ops === undefined ? [] : `${ops}/readyz`));
  const unready: string[] = [];
  const silent = new Set(urls);
  let hasEnded = false;
  async function check(url: string): Promise<void> {
    // A busy machine may respond late, which does not show that a process is unready.
    const result = await probe(url).catch(() => undefined);
    if (result === undefined) return;
    silent.delete(url);
    if (result.status !== 200) unready.push(`${url}: ${result.status} ${result.faults.join()}`);
  }
  async function checkAll(): Promise<void> {
    while (!hasEnded) {
      await Promise.all(urls.map(check));
      await sleep(PROBE_EVERY_MS);
    }
  }
  const checking = checkAll();
  try {
    await task();
  } finally {
    hasEnded = true;
    await checking;
  }
  if (urls.length === 0) throw new Error('none of the processes reports its readiness');
  return [...unready, ...[...silent].map((url) => `${url}: no response`)];
}
