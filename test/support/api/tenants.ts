import { readFileSync } from 'node:fs';
import { createKey as createAppKey } from '../../../packages/admin/src/keys.ts';
import { openStore, type TestStore } from '../open-store.ts';
import { callApi } from '../stack/call-api.ts';
import type { Dev } from '../stack/dev-file.ts';
import type { Stack } from '../stack.ts';

/** An account with an app and a key of its own. */
export interface TestTenant {
  account: string;
  app: string;
  apiKey: string;
  /** The id of the key. */
  keyId: string;
  /** The stack's addresses with the tenant's app and key. */
  dev: Dev;
  api: Stack['api'];
}

/** Does the steps of an operator, without the second that a run of the command line takes. */
export async function withStore<T>(
  stack: Pick<Stack, 'dev'>,
  task: (store: TestStore) => Promise<T>,
): Promise<T> {
  const store = await openStore({ uri: stack.dev.mongodb, appName: 'test' });
  try {
    return await task(store);
  } finally {
    await store.close();
  }
}

/** Makes an app, and an account for it unless one is given. */
export function createTestTenant(
  stack: Pick<Stack, 'home' | 'dev'>,
  {
    plan = 'pro',
    limit,
    account: known,
  }: { plan?: 'trial' | 'pro'; limit?: number | null; account?: string } = {},
): Promise<TestTenant> {
  return withStore(stack, async (store) => {
    const account = known ?? (await store.accounts.create('Test', plan));
    if (limit !== undefined) await store.accounts.limit(account, limit);
    const app = await store.apps.create('Test', account);
    const { id: keyId, apiKey } = await createKey(stack, store, app);
    const dev = { ...stack.dev, app, apiKey };
    const api: Stack['api'] = (method, path, body) => callApi(dev, method, path, body);
    return { account, app, apiKey, keyId, dev, api };
  });
}

/** Makes one more key of an app. */
export async function createKey(
  { home }: Pick<Stack, 'home'>,
  store: TestStore,
  app: string,
): Promise<{ id: string; apiKey: string }> {
  const secrets = JSON.parse(readFileSync(`${home}/secrets.json`, 'utf8')) as {
    apiKeyPepper: string;
  };
  return createAppKey(store, secrets.apiKeyPepper, app);
}
