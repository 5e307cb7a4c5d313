import { readDev } from '../stack/dev-file.ts';
import type { StackOptions } from '../stack/env.ts';
import { type Stack, startStack } from '../stack.ts';

/** Two processes of what tests want two of; no limits per address, for all tests have the same one. */
const OPTIONS: StackOptions = {
  apis: 2,
  deliveryWorkers: 2,
  env: { CARILLON_ADDRESS_LIMITS: 'off' },
};

/** The stack that test files without faults share in this process, one after the other. */
let lent: Promise<Stack> | undefined;
/** Stops of stacks that were not awaited yet. */
const stops: Promise<void>[] = [];

/** Returns the shared stack, and starts it for the first file that needs it. */
export function lend(): Promise<Stack> {
  lent ??= startStack(OPTIONS, true).catch((error: unknown) => {
    lent = undefined;
    throw error;
  });
  return lent;
}

/**
 * Releases the stack that a test file has borrowed. One in which a test failed is stopped, and its folder kept for
 * inspection: the next file gets a new one.
 *
 * @throws when a process of the stack ended meanwhile; no file that shares it may end one
 */
export async function releaseLent(failures: number): Promise<void> {
  const stack = await lent?.catch(() => undefined);
  if (stack === undefined) return;
  const ended = endedProcesses(stack);
  if (failures + ended.length > 0) await stopKept();
  if (ended.length > 0) throw new Error(`of the shared stack ended: ${ended.join(', ')}`);
}

/** Stops the shared stack, if there is one, once no further file needs it. {@link stopLent} throws if it did not end well. */
export async function retireLent(): Promise<void> {
  const stack = await lent?.catch(() => undefined);
  lent = undefined;
  if (stack === undefined) return;
  const stop = stack.stop();
  stops.push(stop);
  await stop.catch(() => undefined);
}

/** Stops the shared stack, if there is one. @throws when it or a retired one did not end well. */
export async function stopLent(): Promise<void> {
  await retireLent();
  await Promise.all(stops.splice(0));
}

async function stopKept(): Promise<void> {
  // The folder of a stack is kept by this count, here that of a file which has ended.
  globalThis.failures = 1;
  try {
    await stopLent();
  } finally {
    globalThis.failures = 0;
  }
}

function endedProcesses({ dev, home }: Stack): string[] {
  const pids = new Set(readDev(home)?.processes.map(({ pid }) => pid));
  const ended = dev.processes.filter(({ pid }) => !pids.has(pid));
  return ended.map(({ service, index }) => `${service}-${index}`);
}
