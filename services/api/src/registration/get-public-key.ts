import { ApiError } from '@carillon/core/api-error';
import { validate } from '@carillon/core/validate';
import type { Store } from '@carillon/store/store';
import { findAppByIdOrName } from './find-app.ts';
import { publicKeyQuery } from './schema.ts';

/**
 * Handles `GET /web-push/public-key`. Returns the `applicationServerKey` that a page subscribes with (RFC 8292, 4).
 *
 * @param query returns the query parameter `appId`, or `app`: the page's host name
 * @throws ApiError INVALID_PARAM, INVALID_APP_ID, NO_WEB_PUSH_AUTH
 */
export async function getPublicKey(
  store: Pick<Store, 'apps' | 'credentials'>,
  query: (name: string) => string | undefined,
): Promise<{ publicKey: string }> {
  const app = await findAppByIdOrName(
    store,
    validate(publicKeyQuery, { appId: query('appId'), app: query('app') }),
  );
  if (app === undefined) throw new ApiError('INVALID_APP_ID');
  const key = await store.credentials.webPushPublicKey(app._id);
  if (key === undefined) throw new ApiError('NO_WEB_PUSH_AUTH');
  return { publicKey: key };
}
