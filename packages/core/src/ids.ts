import { randomBytes, randomFillSync } from 'node:crypto';

/** Random bytes for ids that are no secrets: drawing some for each push would take the API a twentieth of its CPU time. */
const pool = Buffer.alloc(4_096);
let poolUsed = pool.length;

/** Returns random bytes, which the caller encodes at once: they are overwritten later. */
function takeFromPool(count: number): Buffer {
  if (poolUsed + count > pool.length) {
    randomFillSync(pool);
    poolUsed = 0;
  }
  poolUsed += count;
  return pool.subarray(poolUsed - count, poolUsed);
}

/** Milliseconds that the order of a scheduled push can tell: 35 bits. */
const ORDER_MS = 2 ** 35;
/** Milliseconds before its due time at which a push is accepted at most: a year is less. The rest is for those that are late. */
const MAX_LEAD_MS = ORDER_MS - 2 ** 30;
/** Parts of a millisecond that ids distinguish: 12 bits, which a double has left for the fraction of a time of this era. */
const TICKS_PER_MS = 2 ** 12;
/** Highest bit of the order of a push that is not scheduled: of the pushes for one moment it was accepted last. */
const SENT_AT_ONCE = 0x80;

/**
 * Creates a push id: 24 hex characters, 48 bits of milliseconds and 48 bits of order, so that ids sort by due time, then by
 * acceptance (guarantees G5 and G9). The order of a scheduled push is the time of its acceptance, so
 * processes may create the same id in the same moment; other pushes have a random order.
 *
 * @param acceptedMs milliseconds since 1970, with their fraction
 * @param dueMs of a scheduled push
 */
export function newPushId(acceptedMs: number, dueMs?: number): string {
  if (dueMs === undefined) {
    const random = takeFromPool(6);
    random[0] = (random[0] ?? 0) | SENT_AT_ONCE;
    return toIdPrefix(acceptedMs) + random.toString('hex');
  }
  const sinceEarliestMs = Math.max(0, MAX_LEAD_MS - (dueMs - acceptedMs));
  const ticks = Math.floor(Math.min(ORDER_MS - 1, sinceEarliestMs) * TICKS_PER_MS);
  return toIdPrefix(dueMs) + ticks.toString(16).padStart(12, '0');
}

/** Creates the id of an entry of the audit log, in the form of a push id: ids sort by time. */
export function newAuditId(nowMs: number): string {
  return newPushId(nowMs);
}

/**
 * Returns the time in the id of a push, or of one of its batches: when the push was accepted, or is due if it is
 * scheduled. Milliseconds since 1970.
 */
export function pushStartMs(id: string): number {
  return Number.parseInt(id.slice(0, 12), 16);
}

/** Returns the common start of the ids of a moment, to select ids by time. */
export function toIdPrefix(ms: number): string {
  return Math.floor(ms).toString(16).padStart(12, '0');
}

/** Returns the lowest id of the pushes of a moment and later. */
export function pushIdFrom(ms: number): string {
  return Math.max(0, Math.floor(ms)).toString(16).padStart(12, '0').padEnd(24, '0');
}

/** Characters of the id of a push. */
export const PUSH_ID_LENGTH = 24;
const PUSH_ID = /^[0-9a-f]{24}$/;

/** Checks the format of a push id. */
export function isPushId(text: string): boolean {
  return PUSH_ID.test(text);
}

/** Creates a device token: 22 hex characters, 88 random bits, as long as Pushy's. */
export function newDeviceToken(): string {
  return randomBytes(11).toString('hex');
}

/** Creates the id of an account, app or API key: 24 hex characters, as Pushy's app ids. */
export function newObjectId(): string {
  return randomBytes(12).toString('hex');
}

/** Ids that {@link newRequestId} has created, modulo 16 bits. */
let requestIds = 0;

/** Creates the id of a request to a webhook: 24 hex characters. Ids sort by time, and those of a process by their order. */
export function newRequestId(nowMs: number): string {
  requestIds = (requestIds + 1) % 0x1_00_00;
  const order = requestIds.toString(16).padStart(4, '0');
  return toIdPrefix(nowMs) + order + takeFromPool(4).toString('hex');
}

/** Creates a Secret API Key: 64 hex characters, 256 random bits. Clients accept only `[0-9a-zA-Z]+`. */
export function newApiKey(): string {
  return randomBytes(32).toString('hex');
}

/** Creates the id of a claim, connection or process. Random instead of a counter, so that no two are equal. */
export function newClaimId(): string {
  return takeFromPool(9).toString('base64url');
}

/** Minimum digits of a batch's number in its id. */
const SEQUENCE_DIGITS = 6;

/**
 * Returns the id of a push's batch; batches of one push sort by their number. A letter in front of a number with more
 * than six digits encodes their number, since letters sort after digits: 999999, a1000000, b10000000.
 */
export function batchId(pushId: string, sequence: number): string {
  const digits = sequence.toString().padStart(SEQUENCE_DIGITS, '0');
  const extraDigits = digits.length - SEQUENCE_DIGITS;
  return `${pushId}-${extraDigits === 0 ? '' : (9 + extraDigits).toString(36)}${digits}`;
}

/**
 * Returns the id of a fallback batch: it tries another channel for recipients that have not acknowledged. A batch has one,
 * and one more for each recipient that is added later.
 *
 * @param position of the recipient that is added
 */
export function fallbackBatchId(id: string, position?: number): string {
  return `${id}f${position ?? ''}`;
}

/** Checks that an id is that of a fallback batch: no other has the letter behind the id of its push. */
export function isFallbackBatchId(id: string): boolean {
  return id.includes('f', PUSH_ID_LENGTH);
}

/** Returns the id of the batch that a fallback batch is for. */
export function primaryBatchId(fallbackId: string): string {
  return fallbackId.slice(0, fallbackId.lastIndexOf('f'));
}

/** Returns the push of a batch. The id of an embedded batch is the id of its push. */
export function pushIdOfBatch(id: string): string {
  return id.slice(0, PUSH_ID_LENGTH);
}

/** Checks that an id is that of a separate batch, not of one embedded in its push. */
export function isBatchId(id: string): boolean {
  return id.length > PUSH_ID_LENGTH;
}
