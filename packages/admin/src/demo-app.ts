import type { SealingKeys } from '@carillon/core/sealing';
import type { Store } from '@carillon/store/store';
import { createAccount } from './accounts.ts';
import { createApp } from './apps.ts';
import { saveSandboxCredentials } from './credential/sandbox.ts';

const NAME = 'demo';

/** Demo app; `account` and `apiKey` only when it was created now. */
export interface DemoApp {
  app: string;
  account?: string;
  apiKey?: string;
}

/**
 * Ensures that a demo app exists: `existing`, if the database has it, otherwise a new app of a new account. With the
 * sandbox's credentials, if there is one, every channel of the new app works without a provider account. An existing app
 * stays as it is: an operator may have removed them, and `carillon credential sandbox` saves them again.
 *
 * @param secrets as for `createApp`
 * @param options.sandbox base URL of the sandbox's control API
 * @throws AdminError SANDBOX_UNREACHABLE
 */
export async function ensureDemoApp(
  store: Pick<Store, 'accounts' | 'apps' | 'keys' | 'credentials' | 'batchTable'>,
  secrets: { pepper: string; sealingKeys: SealingKeys },
  { existing, sandbox }: { existing: string | undefined; sandbox: string | undefined },
): Promise<DemoApp> {
  if (existing !== undefined && (await store.apps.find(existing)) !== undefined) {
    return { app: existing };
  }
  const { id: account } = await createAccount(store, NAME, 'pro');
  const { id: app, apiKey } = await createApp(store, secrets, { name: NAME, account });
  if (sandbox !== undefined) {
    await saveSandboxCredentials(store, secrets.sealingKeys, app, sandbox);
  }
  return { app, account, apiKey };
}
