import { invalidParameter } from '@carillon/core/validate';
import type { AppDocument } from '@carillon/store/documents';
import type { Store } from '@carillon/store/store';

/**
 * Finds the app that a device names by `appId`, or by one of the app's bundle ids or host names in `app`; undefined
 * if there is none.
 *
 * @throws ApiError INVALID_PARAM if the request has neither
 */
export async function findAppByIdOrName(
  { apps }: Pick<Store, 'apps'>,
  request: { appId?: string | undefined; app?: string | undefined },
): Promise<AppDocument | undefined> {
  if (request.appId !== undefined) return apps.find(request.appId);
  if (request.app !== undefined) return apps.findByBundleIdOrHost(request.app);
  throw invalidParameter('appId', 'is missing');
}
