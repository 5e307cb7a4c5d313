import type { Document } from 'mongodb';
import { buildDeviceMark } from './notify-mark.ts';

/** Fields that a deleted device does not keep; `replacedBy` goes when it is cleared. */
const REMOVED_FIELDS = ['provider', 'way', 'authDigest', 'deviceIdHash', 'replacedAt', 'expiresAt'];

/** Builds the filter of devices that have not ended: one that has counts as deleted before it is. */
export function isUnexpired(nowMs: number) {
  return { expiresAt: { $not: { $lte: new Date(nowMs) } } };
}

/**
 * Builds the update that deletes a device.
 *
 * @param reported webhooks to which it is reported
 * @param hasEnded it has ended by itself
 */
export function buildDeletion(reported: readonly string[], hasEnded = false): Document[] {
  const deleted = { deletedAt: '$$NOW', leaving: true, ...(hasEnded && { ended: true }) };
  const notify = reported.length > 0 && { notify: buildDeviceMark(reported, 'deleted') };
  return [{ $set: { ...deleted, ...notify } }, { $unset: REMOVED_FIELDS }];
}
