import { existsSync } from 'node:fs';
import { mkdir, rename, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { createTestTenant } from './api/tenants.ts';
import { openProvidersOf, type ProviderFixture } from './providers/fixture.ts';
import { readDev } from './stack/dev-file.ts';
import { LENT, type LentKind, SPOILT } from './stack/lent.ts';
import { isAlive } from './stack/processes.ts';
import { openStack, type Stack, startStack } from './stack.ts';
import { until } from './until.ts';

/**
 * A stack that a test file shares with others, and the file's own account, app and API key on it.
 * Nothing of it is to be stopped, killed or frozen.
 */
export interface SharedStack
  extends Pick<Stack, 'dev' | 'home' | 'api' | 'pidOf' | 'readLog' | 'output'> {
  /** The id of the file's account, which has no limit of requests. */
  account: string;
}

/** Guards against hanging, both together less than a hook may take: for a stack that no file has, and for its processes. */
const BORROW_MS = 160_000;
const WHOLE_MS = 120_000;
const PROBE_MS = 5_000;

/**
 * Gives a test file a tenant of its own on the stack that files without faults share: two APIs, two
 * delivery-workers, one of each other process, no limits per address. Calm is a file that breaks nothing
 * and reads nothing but its own tenant: at no collection, queue, metric or log as a whole. Other files
 * use it at the same time.
 */
export async function useSharedStack(): Promise<SharedStack> {
  return withTenant(await openStack(foldersOf('calm')[0] ?? ''));
}

/**
 * Gives a test file the sandbox and the database of the same stack, and tenants of its own that send through providers.
 * Only single addresses may be scripted: faults of a whole provider, and its counters, are everyone's.
 */
export async function useSharedProviders(): Promise<ProviderFixture> {
  const stack = await openStack(foldersOf('calm')[0] ?? '');
  const providers = await openProvidersOf({ ...stack, stop: async () => undefined });
  // The stack goes on for the next file.
  return { ...providers, close: () => providers.store.close() };
}

/**
 * Gives a test file a stack for a while, with a tenant of its own: two processes of each service, no limits per address.
 * The file may kill and freeze its processes; what other files have stored is still there. `stop` gives it back: all of it
 * must be ready again before the next file has it. One in which a test failed is given to no other file.
 *
 * @param options.restartsApis for files after which the APIs would register no new device for a minute
 */
export async function useKillableStack({
  restartsApis = false,
} = {}): Promise<Stack & { account: string }> {
  const folder = await until(takeFolder, { timeoutMs: BORROW_MS, what: 'a stack given back' });
  if (folder === NONE_LEFT) {
    const stack = await startStack(LENT.killable.options);
    return { ...(await withTenant(stack)), stop: stack.stop };
  }
  const giveBack = () => rmdir(join(folder, TAKEN));
  const spoil = () => rename(join(folder, TAKEN), join(folder, SPOILT));
  const orSpoil = async <T>(task: () => Promise<T>): Promise<T> => {
    try {
      return await task();
    } catch (error) {
      await spoil();
      throw error;
    }
  };
  return orSpoil(async () => {
    const deadline = performance.now() + WHOLE_MS;
    const stack = await openStack(folder, () => performance.now() > deadline && 'it is not ready');
    const timeoutMs = deadline - performance.now();
    await until(() => isWhole(stack), { timeoutMs, what: 'every process ready' });
    const stop = async () => {
      if ((globalThis.failures ?? 0) > 0) return spoil();
      if (restartsApis) await orSpoil(() => restartApis(stack));
      return giveBack();
    };
    return { ...(await withTenant(stack)), stop };
  });
}

/** Replaces both API processes. */
async function restartApis(stack: Pick<Stack, 'kill' | 'waitForRestart'>): Promise<void> {
  const restarts = [0, 1].map((index) =>
    stack.waitForRestart('api', stack.kill('api', 'SIGKILL', index), index),
  );
  await Promise.all(restarts);
}

/** Folder in a stack's folder: a file has it. */
const TAKEN = 'taken';
const NONE_LEFT = 'none';

/** Takes a stack that no file has. @returns undefined while all are taken */
async function takeFolder(): Promise<string | undefined> {
  const folders = foldersOf('killable').filter((folder) => !existsSync(join(folder, SPOILT)));
  if (folders.length === 0) return NONE_LEFT;
  for (const folder of folders) {
    const isTaken = await mkdir(join(folder, TAKEN)).then(
      () => true,
      () => false,
    );
    if (isTaken) return folder;
  }
  return undefined;
}

function foldersOf(kind: LentKind): string[] {
  const folders = process.env[LENT[kind].variable]?.split(':') ?? [];
  if (folders.length === 0) throw new Error(`no stack is lent: ${kind}`);
  return folders;
}

/** Checks that every process that the stack had at its start runs and is ready. */
async function isWhole({ home, dev }: Pick<Stack, 'home' | 'dev'>): Promise<boolean> {
  const processes = readDev(home)?.processes ?? [];
  const checks = processes.map(
    async ({ pid, ops }) =>
      isAlive(pid) &&
      (ops === undefined ||
        (await fetch(`${ops}/readyz`, { signal: AbortSignal.timeout(PROBE_MS) })).ok),
  );
  return processes.length >= dev.processes.length && (await Promise.all(checks)).every(Boolean);
}

async function withTenant<T extends Pick<Stack, 'home' | 'dev' | 'api'>>(
  stack: T,
): Promise<T & { account: string }> {
  const { dev, api, account } = await createTestTenant(stack, { limit: null });
  return { ...stack, dev, api, account };
}
