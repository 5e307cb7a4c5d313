import { createTestTenant } from './api/tenants.ts';
import { openProvidersOf, type ProviderFixture } from './providers/fixture.ts';
import type { Dev } from './stack/dev-file.ts';
import type { Stack } from './stack.ts';

/**
 * A stack that a test file shares with others, and the file's own account, app and API key on it.
 * Nothing of it is to be stopped, killed or frozen.
 */
export interface SharedStack
  extends Pick<Stack, 'dev' | 'home' | 'api' | 'pidOf' | 'readLog' | 'output'> {
  /** The id of the file's account, which has no limit of requests. */
  account: string;
}

/**
 * Gives a test file a tenant of its own on the stack that files without faults share: two APIs, two
 * delivery-workers, one of each other process, no limits per address. Calm is a file that breaks nothing
 * and reads nothing but its own tenant: at no collection, queue, metric or log as a whole. All
 * others start a stack of their own.
 */
export async function useSharedStack(): Promise<SharedStack> {
  const { home, pidOf, readLog, output, dev } = await borrow();
  const tenant = await createTestTenant({ home, dev }, { limit: null });
  return {
    dev: tenant.dev,
    api: tenant.api,
    account: tenant.account,
    home,
    pidOf,
    readLog,
    output,
  };
}

/**
 * Gives a test file the sandbox and the database of the same stack, and tenants of its own that send through providers.
 * Only single addresses may be scripted: faults of a whole provider, and its counters, are everyone's.
 */
export async function useSharedProviders(): Promise<ProviderFixture> {
  const providers = await openProvidersOf(await borrow());
  // The stack goes on for the next file.
  return { ...providers, close: () => providers.store.close() };
}

/** The shared stack, which lives outside of a test file's context: its `expect` would get foreign prototypes. */
async function borrow(): Promise<Stack> {
  const stack = await globalThis.lendStack();
  return { ...stack, dev: JSON.parse(JSON.stringify(stack.dev)) as Dev };
}
