import type { Channel } from './channels.ts';

/**
 * Outcomes of deliveries, stored as one byte per recipient of a batch. Three are not final: `pending` means pending in the
 * batch, `inbox` means pending in the device's inbox, `offered` means that the inbox is full and the batch of the fallback
 * decides.
 */
export const OUTCOMES = {
  pending: 0,
  delivered: 1,
  sent: 2,
  inbox: 3,
  gone: 4,
  superseded: 5,
  expired: 6,
  deleted: 7,
  offered: 8,
} as const;
export type OutcomeName = keyof typeof OUTCOMES | 'failed';

/** Outcomes that end no recipient. */
const OPEN: readonly number[] = [OUTCOMES.pending, OUTCOMES.inbox, OUTCOMES.offered];

/** Checks whether a byte ends no recipient: another process may still write its outcome. */
export function isOpenOutcome(code: number): boolean {
  return OPEN.includes(code);
}

/** Code of the first reason in {@link FAILURES}; a failed delivery is stored as this plus the reason's index. */
const FIRST_FAILURE = 16;

/** Reasons of failed deliveries. The index is stored, so the list is append-only. */
export const FAILURES = [
  'channel-not-configured',
  'inbox-full',
  'payload-too-large',
  'rejected-by-provider',
  'no-provider-address',
  'bad-provider-address',
  'wrong-credential',
  'endpoint-not-allowed',
  'worker-failed',
] as const;
export type Failure = (typeof FAILURES)[number];

/** Returns the byte of a failed delivery. */
export function failureCode(reason: Failure): number {
  return FIRST_FAILURE + FAILURES.indexOf(reason);
}

/** Checks that a byte is that of a failed delivery. */
export function isFailure(code: number): boolean {
  return code >= FIRST_FAILURE;
}

/** Bit that all reasons of newer releases share, which keeps the mask a positive 32-bit number. */
const LAST_FAILURE_BIT = 30;

/** Returns the bit of a reason in {@link failureMask}. */
export function failureBit(reason: Failure): number {
  return 1 << FAILURES.indexOf(reason);
}

/** Returns the reasons of the failed deliveries among a batch's bytes, one bit each; 0 if none has failed. */
export function failureMask(codes: Uint8Array): number {
  let mask = 0;
  for (const code of codes)
    if (isFailure(code)) mask |= 1 << Math.min(code - FIRST_FAILURE, LAST_FAILURE_BIT);
  return mask;
}

const NAMES = new Map<number, OutcomeName>(
  Object.entries(OUTCOMES).map(([name, code]) => [code, name as keyof typeof OUTCOMES]),
);

/** Returns the name of an outcome byte; `reason` only for a failure. */
export function describeOutcome(code: number): { outcome: OutcomeName; reason?: Failure } {
  const name = NAMES.get(code);
  if (name !== undefined) return { outcome: name };
  const reason = FAILURES[code - FIRST_FAILURE];
  return reason === undefined ? { outcome: 'failed' } : { outcome: 'failed', reason };
}

/** Number of recipients by outcome; outcomes without recipients are omitted. */
export type OutcomeCounts = Partial<Record<OutcomeName, number>>;

/** Number of outcome codes: the values of a byte. */
const CODES = 256;
/** All zero between two calls of {@link addOutcomes}. Shared, because most batches have one recipient: an array for each is garbage. */
const countsByCode = new Uint32Array(CODES);

/** Counts a batch's bytes by outcome. */
export function countOutcomes(codes: Uint8Array): OutcomeCounts {
  const counts: OutcomeCounts = {};
  addOutcomes(counts, codes);
  return counts;
}

/** Adds a batch's bytes to counts by outcome. */
export function addOutcomes(counts: OutcomeCounts, codes: Uint8Array): void {
  for (let index = 0; index < codes.length; index += 1) {
    const code = codes[index] ?? 0;
    countsByCode[code] = (countsByCode[code] ?? 0) + 1;
  }
  for (let code = 0; code < CODES; code += 1) {
    const count = countsByCode[code] ?? 0;
    if (count === 0) continue;
    countsByCode[code] = 0;
    const { outcome } = describeOutcome(code);
    counts[outcome] = (counts[outcome] ?? 0) + count;
  }
}

/** Outcomes as the HTTP API reports them. */
export const REPORTED_OUTCOMES = [
  'pending',
  'sent',
  'delivered',
  'failed',
  'expired',
  'superseded',
  'gone',
  'deleted',
] as const;
export type ReportedOutcome = (typeof REPORTED_OUTCOMES)[number];

/** Returns the reported outcome: a recipient that waits in its inbox, or for the fallback, is `pending`. */
export function toReportedOutcome(outcome: OutcomeName): ReportedOutcome {
  return outcome === 'inbox' || outcome === 'offered' ? 'pending' : outcome;
}

/** Returns the channel that an outcome is of: recipients of an MQTT batch are `sent` only by its fallback. */
export function channelOfOutcome(channel: Channel, code: number): Channel {
  return channel === 'mqtt' && code === OUTCOMES.sent ? 'fcm' : channel;
}
