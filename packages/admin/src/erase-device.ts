import { DEVICE_TOKEN } from '@carillon/core/limits';
import type { Store } from '@carillon/store/store';
import { AdminError } from './admin-error.ts';

/** Result of an erasure. */
export interface ErasureResult {
  token: string;
  /** Documents of pushes that named the device and no longer do. */
  rewritten: number;
  /** Time from which a repetition also removes the record of the deletion. */
  recordUntil?: Date;
  /** The record of the deletion stays until the deletion is reported to the app's webhooks. Without both, it is removed. */
  unreported?: true;
}

/** Checks that a device was deleted. @throws AdminError DEVICE_NOT_FOUND for an unknown device, and one that was not */
async function requireDeletedDevice(
  { devices }: Pick<Store, 'devices'>,
  token: string,
): Promise<{ app: string }> {
  const device = DEVICE_TOKEN.test(token) ? await devices.find(token) : undefined;
  if (device?.deletedAt !== undefined) return device;
  throw new AdminError('DEVICE_NOT_FOUND', `There is no deleted device ${token}.`);
}

/**
 * Erases the token of a deleted device from the pushes of its app. The recipients of these pushes keep their positions
 * and outcomes. Removes the record of the deletion once no push can be accepted for the device any more. May be
 * repeated.
 *
 * @param onProgress is called with the number of pushes that were read
 * @throws AdminError DEVICE_NOT_FOUND
 */
export async function eraseDevice(
  store: Pick<Store, 'devices' | 'erasure' | 'clock'>,
  token: string,
  onProgress: (scanned: number) => void,
): Promise<ErasureResult> {
  const { app } = await requireDeletedDevice(store, token);
  let after: string | undefined = '';
  let scanned = 0;
  let rewritten = 0;
  while (after !== undefined) {
    const step = await store.erasure.eraseFromPushes(app, token, after);
    scanned += step.scanned;
    rewritten += step.rewritten;
    after = step.next;
    onProgress(scanned);
  }
  const kept = await store.erasure.removeRecord(token, store.clock.now());
  return {
    ...{ token, rewritten },
    ...(kept?.kind === 'recent' && { recordUntil: kept.until }),
    ...(kept?.kind === 'unreported' && { unreported: true }),
  };
}
