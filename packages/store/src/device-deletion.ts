import type { Document } from 'mongodb';
import { buildDeviceMark } from './notify-mark.ts';

/**
 * Builds the update that deletes a device.
 *
 * @param reported webhooks to which it is reported
 * @param removed fields that go
 */
export function buildDeletion(
  reported: readonly string[],
  removed: readonly ('provider' | 'authDigest' | 'way')[],
): Document[] {
  const deleted = { deletedAt: '$$NOW', leaving: true };
  const notify = reported.length > 0 && { notify: buildDeviceMark(reported, 'deleted') };
  return [{ $set: { ...deleted, ...notify } }, { $unset: [...removed] }];
}
