import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { createDataFolder } from '../data-folder.ts';
import { readDev } from '../stack/dev-file.ts';
import { LENT, type LentKind, SPOILT } from '../stack/lent.ts';
import { type Stack, startStack } from '../stack.ts';

/** What stops the servers that the test files of this run share. */
const stops: ((hasFailed: boolean) => Promise<void>)[] = [];

/** Registers what stops a server once no further file needs it. */
export function onRunComplete(stop: () => Promise<void>): void {
  stops.push(stop);
}

/** Begins to start the stacks of a kind. Test files find their folders in the environment, and wait until they are ready. */
export async function lend(kind: LentKind): Promise<void> {
  const { count, options, variable } = LENT[kind];
  const folders = await Promise.all(Array.from({ length: count }, createDataFolder));
  process.env[variable] = folders.join(':');
  for (const folder of folders) {
    const started = startStack(options, folder);
    // A file that needs it says so.
    started.catch(() => undefined);
    stops.push(async (hasFailed) => {
      const stack = await started;
      const isSpoilt = kind === 'calm' || existsSync(join(folder, SPOILT));
      // A stack's folder is kept by this count. It is in memory, so only one that may tell something is.
      globalThis.failures = hasFailed && isSpoilt ? 1 : 0;
      const ended = kind === 'calm' ? endedProcesses(stack) : [];
      await stack.stop();
      if (ended.length > 0) throw new Error(`of the shared stack ended: ${ended.join(', ')}`);
    });
  }
}

/** Stops everything that test files have shared. @throws when something did not end well */
export async function stopShared(hasFailed: boolean): Promise<void> {
  const errors: unknown[] = [];
  // One after the other: each decides whether its folder is kept.
  for (const stop of stops.splice(0)) await stop(hasFailed).catch((error) => errors.push(error));
  if (errors.length > 0) throw errors[0];
}

function endedProcesses({ dev, home }: Stack): string[] {
  const pids = new Set(readDev(home)?.processes.map(({ pid }) => pid));
  const ended = dev.processes.filter(({ pid }) => !pids.has(pid));
  return ended.map(({ service, index }) => `${service}-${index}`);
}
