import { askCarillon } from '../carillon.ts';
import { callApi } from '../stack/call-api.ts';
import type { Dev } from '../stack/dev-file.ts';
import type { Stack } from '../stack.ts';

/** Another tenant of the same stack. */
export interface Tenant {
  /** The stack's addresses with the tenant's app and key. */
  dev: Dev;
  /** Calls the API with the tenant's key. */
  api: Stack['api'];
}

/** Makes another account with an app and a key by the command line, as an operator does. */
export async function createTenant({ home, dev: own }: Stack): Promise<Tenant> {
  const account = await askCarillon<{ id: string }>(home, 'account', 'create', 'Other');
  await askCarillon(home, 'account', 'limit', account.id, 'unlimited');
  const { id: app, apiKey } = await askCarillon<{ id: string; apiKey: string }>(
    home,
    ...['app', 'create', 'Other', '--account', account.id],
  );
  const dev = { ...own, app, apiKey };
  return { dev, api: (method, path, body) => callApi(dev, method, path, body) };
}
