import { ApiError } from '@carillon/core/api-error';
import type { RateCounter } from '@carillon/presence/rate-counter';
import { countRequest } from '@carillon/presence/request-limit';
import type { Store } from '@carillon/store/store';

/**
 * Checks that an app may send a push now, and counts it as a request of its account, in the same minute as those of the
 * HTTP API.
 *
 * @throws ApiError ACCOUNT_SUSPENDED, RATE_LIMIT_EXCEEDED
 */
export async function admitPush(
  { apps, accounts }: Pick<Store, 'apps' | 'accounts'>,
  rateCounter: RateCounter,
  app: string,
): Promise<void> {
  const id = (await apps.find(app))?.account;
  const account = id === undefined ? undefined : await accounts.find(id);
  if (account === undefined) return;
  if (account.suspendedAt !== undefined) throw new ApiError('ACCOUNT_SUSPENDED');
  const status = await countRequest(rateCounter, account);
  if (status === undefined || status.remaining >= 0) return;
  throw new ApiError('RATE_LIMIT_EXCEEDED', undefined, status.resetSeconds);
}
