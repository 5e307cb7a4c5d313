import type { Document } from 'mongodb';
import { buildDeviceMark } from './notify-mark.ts';

/**
 * Builds the update that deletes a device. Its provider address is kept apart until the device is cleared, because another
 * document lists the device by it (store/address-holders).
 *
 * @param reported webhooks to which it is reported
 * @param removed fields that go
 */
export function buildDeletion(
  reported: readonly string[],
  removed: readonly ('provider' | 'authDigest')[],
): Document[] {
  const deleted = { deletedAt: '$$NOW', leaving: true, leftAddress: '$provider.address' };
  const notify = reported.length > 0 && { notify: buildDeviceMark(reported, 'deleted') };
  return [{ $set: { ...deleted, ...notify } }, { $unset: [...removed] }];
}
