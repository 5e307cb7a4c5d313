import { createHash } from 'node:crypto';

/** States of a push (design: data model). */
export const PUSH_STATES = [
  'accepting',
  'scheduled',
  'open',
  'finished',
  'deleted',
  'abandoned',
] as const;
export type PushState = (typeof PUSH_STATES)[number];

/** States of a push as the HTTP API reports them: one that ended by its expiry is `expired`. */
export const REPORTED_STATES = ['scheduled', 'open', 'finished', 'expired', 'deleted'] as const;
export type ReportedState = (typeof REPORTED_STATES)[number];

/** Returns the state as it is reported. */
export function toReportedState({
  state,
  finishedAt,
}: {
  state: PushState;
  finishedAt?: Date;
}): ReportedState {
  if (state === 'finished') return finishedAt === undefined ? 'expired' : 'finished';
  return state === 'scheduled' || state === 'deleted' ? state : 'open';
}

/** States of a batch. */
export type BatchState = 'waiting' | 'ready' | 'closed';

/** Duration of a worker's claim on a batch; it is renewed three times within it. */
export const BATCH_LEASE_MS = 6_000;

/** Joins device tokens for storage. Tokens contain no space. Callers sort them, so that a binary search finds a recipient. */
export function joinTokens(tokens: readonly string[]): string {
  return tokens.join(' ');
}

/** Reverses {@link joinTokens}. Positions in the list are positions in the outcome bytes. */
export function splitTokens(joined: string): string[] {
  return joined === '' ? [] : joined.split(' ');
}

/** Text in joined tokens in place of an erased device. No device token contains it. */
export const ERASED_TOKEN = '*';

/** Replaces a token in joined tokens by {@link ERASED_TOKEN}. The positions of the others stay. */
export function eraseToken(joined: string, token: string): string {
  return joinTokens(splitTokens(joined).map((one) => (one === token ? ERASED_TOKEN : one)));
}

/** Offset basis and prime of FNV-1a with 32 bits. */
const FNV_BASIS = 0x811c9dc5;
const FNV_PRIME = 0x01000193;

/**
 * Computes the hash by which the pushes of a device are found: FNV-1a of the token's ASCII characters, as a signed int32.
 * It is stored, so it never changes. Two tokens may have the same hash.
 */
export function hashToken(token: string): number {
  let hash = FNV_BASIS;
  for (let at = 0; at < token.length; at += 1)
    hash = Math.imul(hash ^ token.charCodeAt(at), FNV_PRIME);
  return hash | 0;
}

/** Checks that the bit of a position is set. */
export function hasBit(words: Readonly<Record<number, number>>, position: number): boolean {
  return (((words[position >> 5] ?? 0) >>> (position & 31)) & 1) === 1;
}

/** Builds words in which only the bits of these positions are set, as signed int32 for MongoDB's `$bit`. */
export function toBitWords(positions: Iterable<number>): Map<number, number> {
  const words = new Map<number, number>();
  for (const position of positions) {
    const word = position >> 5;
    words.set(word, (words.get(word) ?? 0) | (1 << (position & 31)));
  }
  return words;
}

/** Computes the form of a collapse key in an inbox row's id: 16 base64url characters. The key itself may be any text. */
export function collapseHash(app: string, key: string): string {
  return createHash('sha256').update(app).update('\0').update(key).digest('base64url').slice(0, 16);
}
