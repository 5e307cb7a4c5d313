/**
 * How a delivery ended, as one byte for each recipient of a batch.
 * `owed` is no end: the recipient has none yet. `inbox` is none either: the inbox row owes now.
 */
export const OUTCOMES = {
  owed: 0,
  delivered: 1,
  sent: 2,
  inbox: 3,
  gone: 4,
  superseded: 5,
  expired: 6,
  deleted: 7,
} as const;
export type OutcomeName = keyof typeof OUTCOMES | 'failed';

const FIRST_FAILURE = 16;

/** Why a delivery failed; its place in this list is stored, so append only. */
export const FAILURES = [
  'channel-not-configured',
  'inbox-full',
  'payload-too-large',
  'rejected-by-provider',
  'no-provider-address',
  'bad-provider-address',
  'wrong-credential',
  'endpoint-not-allowed',
] as const;
export type Failure = (typeof FAILURES)[number];

/** The byte of a failed delivery. */
export function failed(reason: Failure): number {
  return FIRST_FAILURE + FAILURES.indexOf(reason);
}

const NAMES = new Map<number, OutcomeName>(
  Object.entries(OUTCOMES).map(([name, code]) => [code, name as keyof typeof OUTCOMES]),
);

/** An outcome byte in words; `reason` only for a failure. */
export function describeOutcome(code: number): { outcome: OutcomeName; reason?: Failure } {
  const name = NAMES.get(code);
  if (name !== undefined) return { outcome: name };
  const reason = FAILURES[code - FIRST_FAILURE];
  return reason === undefined ? { outcome: 'failed' } : { outcome: 'failed', reason };
}

/** How many recipients ended how; keys that are 0 are left out. */
export type OutcomeCounts = Partial<Record<OutcomeName, number>>;

/** Counts the bytes of a batch by the outcome's name. */
export function countOutcomes(codes: Uint8Array): OutcomeCounts {
  const counts: OutcomeCounts = {};
  for (const code of codes) {
    const { outcome } = describeOutcome(code);
    counts[outcome] = (counts[outcome] ?? 0) + 1;
  }
  return counts;
}

/** Adds counts up, for instance those of a push's batches. */
export function addCounts(into: OutcomeCounts, more: OutcomeCounts): OutcomeCounts {
  const sum: OutcomeCounts = { ...into };
  for (const [name, n] of Object.entries(more) as [OutcomeName, number][]) {
    sum[name] = (sum[name] ?? 0) + n;
  }
  return sum;
}
