import { randomBytes } from 'node:crypto';

/** A push id: 24 hex characters, 48 bits of milliseconds and 48 random bits (guarantee G5: ids sort by time). */
export function newPushId(nowMs: number): string {
  return Math.floor(nowMs).toString(16).padStart(12, '0') + randomBytes(6).toString('hex');
}

const PUSH_ID = /^[0-9a-f]{24}$/;

/** Whether a string has the form of a push id. */
export function isPushId(text: string): boolean {
  return PUSH_ID.test(text);
}

/** A device token: 22 hex characters, 88 random bits, the length of Pushy's own. */
export function newDeviceToken(): string {
  return randomBytes(11).toString('hex');
}

/** An account, app or API key id: 24 hex characters, as Pushy's app ids. */
export function newObjectId(): string {
  return randomBytes(12).toString('hex');
}

/** A Secret API Key: 64 hex characters, 256 random bits. Clients accept only `[0-9a-zA-Z]+`. */
export function newApiKey(): string {
  return randomBytes(32).toString('hex');
}

/** A claim, connection or process identity. Random, not a counter: nobody can hold it by chance. */
export function newClaimId(): string {
  return randomBytes(9).toString('base64url');
}

const SEQUENCE_DIGITS = 6;

/** The id of a push's batch; batches of one push sort by their number. */
export function batchId(pushId: string, sequence: number): string {
  return `${pushId}-${sequence.toString().padStart(SEQUENCE_DIGITS, '0')}`;
}

/** The batch that tries another channel for recipients of this work who haven't acknowledged: one for each work. */
export function fallbackId(workId: string): string {
  return `${workId}f`;
}

/** The push of a unit of work, which is a batch or a push that holds its only batch itself. */
export function pushOfWork(workId: string): string {
  return workId.slice(0, 24);
}

/** Whether the work lies in a batch of its own and not in the push document. */
export function isBatchId(workId: string): boolean {
  return workId.length > 24;
}
