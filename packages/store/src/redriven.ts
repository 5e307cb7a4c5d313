import { Binary } from 'mongodb';
import { toBytes } from './bytes.ts';
import type { Batch } from './documents.ts';

/** Packs positions of recipients into one bit each. */
export function packPositions(positions: readonly number[], count: number): Binary {
  const bits = new Uint8Array(Math.ceil(count / 8));
  for (const position of positions)
    bits[position >> 3] = (bits[position >> 3] ?? 0) | (1 << (position & 7));
  return new Binary(bits);
}

/** Checks that a re-drive has sent to a recipient of a batch again: one re-drive, or any. */
export function isRedriven(
  { redriven = [] }: Pick<Batch, 'redriven'>,
  position: number,
  by?: string,
): boolean {
  return redriven.some(
    (entry) =>
      (by === undefined || entry.by === by) &&
      (((toBytes(entry.bits)[position >> 3] ?? 0) >> (position & 7)) & 1) === 1,
  );
}
