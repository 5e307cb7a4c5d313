import type { Channel } from '@carillon/core/channels';
import type { Failure } from '@carillon/core/outcomes';
import type { RedriveDocument } from '@carillon/store/documents';
import type { Store } from '@carillon/store/store';
import { AdminError } from './admin-error.ts';

/** Pushes that a re-drive may name; more are selected by a filter. */
export const MAX_NAMED_PUSHES = 1_000;

/** Failed deliveries of an app: those of `pushes` that match, or all that do. Times as in `FailureListQuery`. */
export interface FailureSelection {
  channel?: Channel | undefined;
  reason?: Failure | undefined;
  from?: Date | undefined;
  to?: Date | undefined;
  pushes?: readonly string[] | undefined;
}

/** A re-drive with its times in milliseconds since 1970. `total` is absent while the pushes are counted. */
export type RedriveView = ReturnType<typeof toRedriveView>;

/**
 * Starts a re-drive of failed deliveries. The scheduler adds its job within seconds.
 *
 * @param by name of the operator
 * @returns its id
 * @throws AdminError REDRIVE_RUNNING
 */
export async function startRedrive(
  { redrives }: Pick<Store, 'redrives'>,
  app: string,
  { pushes, channel, reason, from, to }: FailureSelection,
  by: string,
): Promise<string> {
  const filter = {
    ...(channel && { channel }),
    ...(reason && { reason }),
    ...(from && { from }),
    ...(to && { to }),
  };
  const id = await redrives.create(app, filter, pushes, by);
  if (id !== undefined) return id;
  throw new AdminError('REDRIVE_RUNNING', 'A re-drive of this app is running. Wait for its end.');
}

/**
 * Returns a re-drive of any app: callers check the account.
 *
 * @throws AdminError REDRIVE_NOT_FOUND
 */
export async function getRedrive(
  { redrives }: Pick<Store, 'redrives'>,
  id: string,
): Promise<RedriveView> {
  const redrive = await redrives.find(id);
  if (redrive !== undefined) return toRedriveView(redrive);
  throw new AdminError('REDRIVE_NOT_FOUND', `There is no re-drive ${id}.`);
}

function toRedriveView(redrive: RedriveDocument) {
  const { _id, app, state, createdAt, endedAt, total, done, recipients, skipped } = redrive;
  return {
    ...{ id: _id, app, state, createdAt: createdAt.getTime() },
    ...(endedAt !== undefined && { endedAt: endedAt.getTime() }),
    ...(total !== undefined && { total }),
    ...{ done, recipients },
    skipped: Object.values(skipped).reduce((sum, n) => sum + n, 0),
    skippedReasons: skipped,
  };
}
