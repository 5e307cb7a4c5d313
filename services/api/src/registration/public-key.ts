import { ApiError } from '@carillon/core/api-error';
import { check } from '../http/check.ts';
import { type AppFinder, findNamed } from './find-named.ts';
import { publicKeyQuery } from './schema.ts';

/** What telling a page the public key needs. */
export interface PublicKeyDeps extends AppFinder {
  /** The public half of an app's key pair for Web Push, base64url. */
  webPushPublicKey(app: string): Promise<string | undefined>;
}

/**
 * `GET /web-push/public-key`: the `applicationServerKey` that a page subscribes with (RFC 8292, 4).
 *
 * @param query `appId`, or `app`: the page's host name
 * @throws ApiError INVALID_PARAM, INVALID_APP_ID, NO_WEB_PUSH_AUTH
 */
export async function publicKey(
  deps: PublicKeyDeps,
  query: (name: string) => string | undefined,
): Promise<{ publicKey: string }> {
  const app = await findNamed(
    deps,
    check(publicKeyQuery, { appId: query('appId'), app: query('app') }),
  );
  if (app === undefined) throw new ApiError('INVALID_APP_ID');
  const key = await deps.webPushPublicKey(app._id);
  if (key === undefined) throw new ApiError('NO_WEB_PUSH_AUTH');
  return { publicKey: key };
}
