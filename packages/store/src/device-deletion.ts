import type { Document } from 'mongodb';
import type { DeviceDocument } from './documents.ts';
import { buildDeviceMark } from './notify-mark.ts';

/** Fields that a deleted device does not keep; `replacedBy` goes when it is cleared. */
const REMOVED_FIELDS = ['provider', 'way', 'authDigest', 'deviceIdHash', 'replacedAt', 'expiresAt'];

/** Builds the filter of devices that have not ended: one that has counts as deleted before it is. */
export function isUnexpired(nowMs: number) {
  return { expiresAt: { $not: { $lte: new Date(nowMs) } } };
}

/** What the deletion of a device says about it. */
export type DeletionMarks = Pick<DeviceDocument, 'ended' | 'prunedBy'>;

/**
 * Builds the update that deletes a device.
 *
 * @param reported webhooks to which it is reported
 */
export function buildDeletion(reported: readonly string[], marks: DeletionMarks = {}): Document[] {
  const deleted = { deletedAt: '$$NOW', leaving: true, ...marks };
  const notify = reported.length > 0 && { notify: buildDeviceMark(reported, 'deleted') };
  return [{ $set: { ...deleted, ...notify } }, { $unset: REMOVED_FIELDS }];
}
