import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Asks until the answer is yes.
 *
 * @throws naming what was waited for, after `timeoutMs`
 */
export async function until(
  what: string,
  isSo: () => boolean | Promise<boolean>,
  { timeoutMs = 60_000, everyMs = 50 }: { timeoutMs?: number; everyMs?: number } = {},
): Promise<void> {
  const startedAt = performance.now();
  while (!(await isSo())) {
    if (performance.now() - startedAt > timeoutMs) throw new Error(`waited in vain for ${what}`);
    await sleep(everyMs);
  }
}
