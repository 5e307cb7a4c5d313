import { REPORTED_OUTCOMES } from '@carillon/core/outcomes';
import type { PushQuery } from '@carillon/reports/push-search';
import type { Reports } from '@carillon/reports/reports';
import type { Store } from '@carillon/store/store';
import { AdminError } from './admin-error.ts';
import type { Page } from './page.ts';
import { type PushItem, searchPushes } from './push-details.ts';
import { requireApp } from './require-app.ts';

/** States by which pushes are listed; the others last less than a second. */
export const LISTED_STATES = ['scheduled', 'open', 'finished', 'deleted'] as const;

/** Outcomes that end a recipient, by which pushes are listed. */
export const ENDS = REPORTED_OUTCOMES.filter((outcome) => outcome !== 'pending');

/** Maximum number of recipients that are listed with a provider's error. */
const MAX_LISTED_ERRORS = 100;

/**
 * Push with the names and times (unix seconds) of the HTTP API. One in delivery has `batches` instead of `outcomes` if
 * it has many.
 */
export type PushView = ReturnType<typeof toPushView>;

/**
 * Searches an app's pushes as `searchPushes` does.
 *
 * @throws AdminError APP_NOT_FOUND
 */
export async function listPushes(
  store: Pick<Store, 'apps'> & Parameters<typeof searchPushes>[0],
  query: PushQuery,
): Promise<Page<PushView>> {
  await requireApp(store, query.app);
  const { items, ...paging } = await searchPushes(store, query, false);
  return { items: items.map(toPushView), ...paging };
}

/** Converts a push to the names and times of the HTTP API. */
export function toPushView({ id, state, acceptedAt, dueAt, expiresAt, ...push }: PushItem) {
  const { devices, topics, counts, batches } = push;
  const toSeconds = (ms: number): number => Math.floor(ms / 1_000);
  return {
    ...{ id, state, date: toSeconds(acceptedAt) },
    ...(dueAt !== undefined && { schedule: toSeconds(dueAt) }),
    ...{ expiration: toSeconds(expiresAt), devices },
    ...(topics !== undefined && { topics }),
    ...(counts !== undefined && { outcomes: counts }),
    ...(batches !== undefined && { batches }),
  };
}

/**
 * Returns the number of a push's recipients per outcome, and the first recipients that a provider returned an
 * error for; `moreRecipients` counts the others of those.
 *
 * @throws AdminError PUSH_NOT_FOUND
 */
export async function getPushOutcomes(
  { deliveryStatus }: Pick<Reports, 'deliveryStatus'>,
  id: string,
) {
  const [status, errors] = await Promise.all([
    deliveryStatus.statusOfPush(id),
    deliveryStatus.listProviderErrors(id, MAX_LISTED_ERRORS),
  ]);
  if (status === undefined) throw new AdminError('PUSH_NOT_FOUND', `There is no push ${id}.`);
  const { recipients, total } = errors;
  return { ...status, recipients, moreRecipients: total - recipients.length };
}

/**
 * Returns the outcome of a push for one device.
 *
 * @throws AdminError PUSH_NOT_FOUND when the push does not exist or the device is not a recipient
 */
export async function getRecipientOutcome(
  { deliveryStatus }: Pick<Reports, 'deliveryStatus'>,
  id: string,
  token: string,
) {
  const status = await deliveryStatus.statusOfRecipient(id, token);
  if (status !== undefined) return { token, ...status };
  throw new AdminError('PUSH_NOT_FOUND', `There is no push ${id} to the device ${token}.`);
}

/** Converts a time to unix seconds, as the HTTP API gives it. */
export function toUnixSeconds(date: Date): number {
  return Math.floor(date.getTime() / 1_000);
}
