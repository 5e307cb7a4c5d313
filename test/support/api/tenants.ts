import { readFileSync } from 'node:fs';
import { apiKeyDigest } from '../../../packages/core/src/api-key.ts';
import { newApiKey } from '../../../packages/core/src/ids.ts';
import { connectStore, type Store } from '../../../packages/store/src/store.ts';
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

/** What an operator does, without the second that a run of the command line takes. */
export async function asOperator<T>(
  stack: Pick<Stack, 'dev'>,
  work: (store: Store) => Promise<T>,
): Promise<T> {
  const store = await connectStore({ uri: stack.dev.mongodb, appName: 'test' });
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

/** Makes an account with one app. */
export function newTenant(
  stack: Pick<Stack, 'home' | 'dev'>,
  { plan = 'pro', limit }: { plan?: 'trial' | 'pro'; limit?: number | null } = {},
): Promise<TestTenant> {
  return asOperator(stack, async (store) => {
    const account = await store.accounts.create('Test', plan);
    if (limit !== undefined) await store.accounts.limit(account, limit);
    const app = await store.apps.create('Test', account);
    const { id: keyId, apiKey } = await newKey(stack, store, app);
    const dev = { ...stack.dev, app, apiKey };
    const api: Stack['api'] = (method, path, body) => callApi(dev, method, path, body);
    return { account, app, apiKey, keyId, dev, api };
  });
}

/** Makes one more key of an app. */
export async function newKey(
  { home }: Pick<Stack, 'home'>,
  store: Store,
  app: string,
): Promise<{ id: string; apiKey: string }> {
  const secrets = JSON.parse(readFileSync(`${home}/secrets.json`, 'utf8')) as {
    apiKeyPepper: string;
  };
  const apiKey = newApiKey();
  const digest = apiKeyDigest(secrets.apiKeyPepper, apiKey);
  return { id: await store.keys.create(app, digest, apiKey.slice(-4)), apiKey };
}
