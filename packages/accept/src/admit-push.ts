import { ApiError } from '@carillon/core/api-error';
import type { RateCounter } from '@carillon/presence/rate-counter';
import { countRequest } from '@carillon/presence/request-limit';
import type { Producers } from '@carillon/queue/producers';
import { usesFcmForAndroid } from '@carillon/store/apps';
import type { AppDocument } from '@carillon/store/documents';
import type { Store } from '@carillon/store/store';
import { type AcceptPushStore, acceptPush, type PushOrigin } from './accept-push.ts';
import type { PushRequest } from './parse-push.ts';

/** Accepts a push of an app as the API does. Throws an ApiError if it is rejected. */
export type Accept = (
  app: string,
  request: PushRequest,
  origin?: Pick<PushOrigin, 'idempotency' | 'by'>,
) => Promise<{ id: string; info: { devices: number; failed: string[] } }>;

/** Creates the function by which processes other than the API accept pushes, as requests of the app's account. */
export function createAccept(
  store: AcceptPushStore & Pick<Store, 'apps' | 'accounts'>,
  producers: Producers,
  rateCounter: RateCounter,
): Accept {
  return async (app, request, origin) => {
    const isFcmOn = usesFcmForAndroid(await admitPush(store, rateCounter, app));
    const usesFcm = isFcmOn && (await store.credentials.has(app, 'fcm'));
    // Read when a push needs them: the console does not refresh them, and without viewers reads nothing.
    await store.knownWebhooks.refreshIfStale();
    return acceptPush(store, producers, app, request, { ...origin, usesFcm });
  };
}

/**
 * Checks that an app may send a push now, and counts it as a request of its account, in the same minute as those of the
 * HTTP API.
 *
 * @returns the app
 * @throws ApiError ACCOUNT_SUSPENDED, RATE_LIMIT_EXCEEDED
 */
async function admitPush(
  { apps, accounts }: Pick<Store, 'apps' | 'accounts'>,
  rateCounter: RateCounter,
  app: string,
): Promise<AppDocument | undefined> {
  const found = await apps.find(app);
  const account = found === undefined ? undefined : await accounts.find(found.account);
  if (account === undefined) return found;
  if (account.suspendedAt !== undefined) throw new ApiError('ACCOUNT_SUSPENDED');
  const status = await countRequest(rateCounter, account);
  if (status === undefined || status.remaining >= 0) return found;
  throw new ApiError('RATE_LIMIT_EXCEEDED', undefined, status.resetSeconds);
}
