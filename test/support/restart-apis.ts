import type { Stack } from './stack.ts';

/**
 * Replaces both API processes of a stack, for the next file that has it: after an outage of MongoDB they register no new
 * device for a minute.
 */
export async function restartApis(stack: Pick<Stack, 'kill' | 'waitForRestart'>): Promise<void> {
  const restarts = [0, 1].map((index) =>
    stack.waitForRestart('api', stack.kill('api', 'SIGKILL', index), index),
  );
  await Promise.all(restarts);
}
