import { createHash } from 'node:crypto';

/** The states of a push (design: data model). */
export const PUSH_STATES = [
  'accepting',
  'scheduled',
  'open',
  'finished',
  'deleted',
  'abandoned',
] as const;
export type PushState = (typeof PUSH_STATES)[number];

/** The states of a batch. */
export type WorkState = 'waiting' | 'ready' | 'closed';

/** Joins device tokens for storage; tokens hold no space. Sorted, so that a recipient is found by halving. */
export function joinTokens(tokens: readonly string[]): string {
  return tokens.join(' ');
}

/** The reverse of {@link joinTokens}; positions in the list are positions in the outcome bytes. */
export function splitTokens(joined: string): string[] {
  return joined === '' ? [] : joined.split(' ');
}

/** Whether the bit of a position is set. */
export function hasBit(words: Readonly<Record<number, number>>, position: number): boolean {
  return (((words[position >> 5] ?? 0) >>> (position & 31)) & 1) === 1;
}

/** Words in which only the bits of these positions are set, as signed int32 (what `$bit` takes). */
export function bitWords(positions: Iterable<number>): Map<number, number> {
  const words = new Map<number, number>();
  for (const position of positions) {
    const word = position >> 5;
    words.set(word, (words.get(word) ?? 0) | (1 << (position & 31)));
  }
  return words;
}

/** What stands for a collapse key in an inbox row's id: 16 base64url characters; keys themselves may hold anything. */
export function collapseHash(app: string, key: string): string {
  return createHash('sha256').update(app).update('\0').update(key).digest('base64url').slice(0, 16);
}
