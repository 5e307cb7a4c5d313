import type { Reports } from '@carillon/reports/reports';
import type { ListedPush } from '@carillon/store/pushes';
import type { Store } from '@carillon/store/store';
import { AdminError } from './admin-error.ts';
import { type Page, type PageQuery, toPage } from './page.ts';
import { requireApp } from './require-app.ts';

/** Text that sorts after every push id, which is hexadecimal. */
const AFTER_ALL_PUSH_IDS = 'g';
/** Maximum number of recipients that are listed with a provider's error. */
const MAX_LISTED_ERRORS = 100;

/** Push with the names and times (unix seconds) of the HTTP API; `outcomes` once it has ended. */
export type PushView = ReturnType<typeof toPushView>;

/**
 * Lists the pushes of an app that the store still holds, the newest first.
 *
 * @throws AdminError APP_NOT_FOUND
 */
export async function listPushes(
  store: Pick<Store, 'apps' | 'pushes'>,
  app: string,
  query: PageQuery,
): Promise<Page<PushView>> {
  await requireApp(store, app);
  const found = await store.pushes.list(app, query.cursor ?? AFTER_ALL_PUSH_IDS, query.limit);
  return toPage(found.map(toPushView), query, ({ id }) => id);
}

function toPushView(push: ListedPush) {
  const { dueAt, topics, counts } = push;
  return {
    id: push._id,
    state: push.state,
    date: toUnixSeconds(push.acceptedAt),
    ...(dueAt !== undefined && { schedule: toUnixSeconds(dueAt) }),
    expiration: toUnixSeconds(push.expiresAt),
    devices: push.devices,
    ...(topics !== undefined && { topics }),
    ...(counts !== undefined && { outcomes: counts }),
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
