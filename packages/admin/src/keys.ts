import { digestApiKey } from '@carillon/core/api-key';
import { newApiKey } from '@carillon/core/ids';
import type { KeyDocument } from '@carillon/store/documents';
import type { Store } from '@carillon/store/store';
import { AdminError } from './admin-error.ts';
import { requireApp } from './require-app.ts';

/** Secret API Key as operators see it, without the key and its digest. */
export type KeyView = { id: string } & Omit<KeyDocument, '_id' | 'digest'>;

/**
 * Creates a Secret API Key of an app. The store holds only the key's digest, so the result is the only copy.
 *
 * @param pepper HMAC key of the digest
 * @throws AdminError APP_NOT_FOUND
 */
export async function createKey(
  store: Pick<Store, 'apps' | 'keys'>,
  pepper: string,
  app: string,
): Promise<{ id: string; apiKey: string }> {
  await requireApp(store, app);
  const apiKey = newApiKey();
  const id = await store.keys.create(app, digestApiKey(pepper, apiKey), apiKey.slice(-4));
  return { id, apiKey };
}

/**
 * Lists the keys of an app, the oldest first.
 *
 * @throws AdminError APP_NOT_FOUND
 */
export async function listKeys(
  store: Pick<Store, 'apps' | 'keys'>,
  app: string,
): Promise<KeyView[]> {
  await requireApp(store, app);
  return (await store.keys.list(app)).map(({ _id, ...fields }) => ({ id: _id, ...fields }));
}

/**
 * Revokes a key. API processes cache keys, so it works for up to 10 more seconds.
 *
 * @param app the only app whose key it may be; any app's key is revoked if absent
 * @throws AdminError KEY_NOT_FOUND when it does not exist or is already revoked
 */
export async function revokeKey(
  { keys }: Pick<Store, 'keys'>,
  id: string,
  app?: string,
): Promise<{ id: string }> {
  if (await keys.revoke(id, app)) return { id };
  throw new AdminError('KEY_NOT_FOUND', `There is no key ${id} that can be revoked.`);
}
