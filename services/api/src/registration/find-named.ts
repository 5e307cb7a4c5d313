import { ApiError } from '@carillon/core/api-error';
import type { AppDocument } from '@carillon/store/documents';

/** What finding the app that a device names needs. */
export interface AppFinder {
  /** An app by its id. */
  findApp(id: string): Promise<AppDocument | undefined>;
  /** An app by a bundle id or host name of its. */
  findNamedApp(name: string): Promise<AppDocument | undefined>;
}

/**
 * The app that a device names by its id, or by a name that is known to it; undefined: there is none.
 *
 * @throws ApiError INVALID_PARAM when it names none
 */
export async function findNamed(
  { findApp, findNamedApp }: AppFinder,
  given: { appId?: string | undefined; app?: string | undefined },
): Promise<AppDocument | undefined> {
  if (given.appId !== undefined) return findApp(given.appId);
  if (given.app !== undefined) return findNamedApp(given.app);
  throw new ApiError('INVALID_PARAM', 'The parameter "appId" is missing.');
}
