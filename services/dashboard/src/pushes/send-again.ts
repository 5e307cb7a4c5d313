import type { Accept } from '@carillon/accept/admit-push';
import type { PushRequest } from '@carillon/accept/parse-push';
import { requirePush } from '@carillon/admin/push-details';
import { splitTokens } from '@carillon/core/batch';
import { LIMITS } from '@carillon/core/limits';
import type { Reports } from '@carillon/reports/reports';
import type { PushDocument } from '@carillon/store/documents';
import type { Store } from '@carillon/store/store';
import { ConsoleError } from '../http/route.ts';

/**
 * Sends a push once more: the same content to the same topics and devices, with the time to live that it had. Topics
 * that had few subscribers were resolved when it was accepted; their subscribers of that moment get it.
 *
 * @throws ConsoleError CONFLICT when it has more device tokens than a push may have; AdminError PUSH_NOT_FOUND;
 *   ApiError when it is not accepted
 */
export async function sendAgain(
  store: Pick<Store, 'pushes'> & Pick<Reports, 'pushSummaries'>,
  accept: Accept,
  id: string,
  operator: string,
): ReturnType<Accept> {
  const push = await requirePush(store, id);
  const { acceptedAt, dueAt, expiresAt } = push;
  const lifetimeMs = expiresAt.getTime() - (dueAt ?? acceptedAt).getTime();
  const request = {
    ...(await readAudience(store, push)),
    data: push.data,
    timeToLiveSeconds: Math.round(lifetimeMs / 1_000),
    options: push.options,
  };
  return accept(push.app, request, { by: { operator } });
}

async function readAudience(
  { pushSummaries }: Pick<Reports, 'pushSummaries'>,
  push: PushDocument,
): Promise<Pick<PushRequest, 'tokens' | 'topics' | 'activeWithinSeconds'>> {
  const { audience } = push;
  if (audience !== undefined) {
    const { tokens, ...rest } = audience;
    return { ...rest, tokens: splitTokens(tokens) };
  }
  const tokens = await pushSummaries.listTokens(push, LIMITS.tokensPerPush);
  if (tokens !== undefined) return { topics: [], tokens };
  const limit = LIMITS.tokensPerPush.toLocaleString('en');
  throw new ConsoleError('CONFLICT', `The push has more than ${limit} devices. Use a topic.`);
}
