import { hasBit } from '@carillon/core/batch';
import { OUTCOMES } from '@carillon/core/outcomes';
import type { Collection } from 'mongodb';
import type { InboxDocument } from './documents.ts';

const ROWS_PER_READ = 5_000;

type BitWords = Record<number, number>;

/** Positions of recipients by the id of their batch, as words of bits. */
export type PositionBits = Map<string, BitWords>;

/** Recipients that were in an inbox at the first reading of the batches, and the inbox rows that were read after it. */
export interface InboxReading {
  before: PositionBits;
  rows: PositionBits;
}

/** Reads which recipients of a push have an inbox row: 128 bytes for each batch of a thousand. */
export async function findRowPositions(
  { inbox }: { inbox: Collection<InboxDocument> },
  push: string,
): Promise<PositionBits> {
  const positions: PositionBits = new Map();
  const projection = { _id: 0, work: 1, position: 1 };
  // Between two replies other work gets its turn: there may be a million rows.
  const rows = inbox.find({ push }, { projection, batchSize: ROWS_PER_READ });
  for await (const { work, position } of rows) {
    const words = positions.get(work) ?? {};
    positions.set(work, words);
    setBit(words, position);
  }
  return positions;
}

/**
 * Marks the recipients of a batch as superseded that are `inbox` and had no inbox row. Receipts and other outcomes are
 * written into the batch before the row goes, so only a newer push of the collapse key can have replaced the row.
 *
 * @param codes outcomes of the batch, read after the rows
 * @param hadNoRow checks whether a recipient that was `inbox` before the rows were read had none
 */
export function markSuperseded(codes: Uint8Array, hadNoRow: (position: number) => boolean): void {
  for (const [position, code] of codes.entries())
    if (code === OUTCOMES.inbox && hadNoRow(position)) codes[position] = OUTCOMES.superseded;
}

/**
 * Returns the positions of a batch that are in an inbox. With a reading, marks those superseded in `codes` that were in an
 * inbox before the rows were read, and had no row.
 *
 * @param id of the batch or its push
 */
export function readInboxPositions(
  id: string,
  codes: Uint8Array,
  reading: InboxReading | undefined,
): BitWords {
  const words: BitWords = {};
  for (const [position, code] of codes.entries())
    if (code === OUTCOMES.inbox) setBit(words, position);
  if (reading === undefined) return words;
  const before = reading.before.get(id) ?? {};
  const rows = reading.rows.get(id) ?? {};
  markSuperseded(codes, (position) => hasBit(before, position) && !hasBit(rows, position));
  return words;
}

function setBit(words: BitWords, position: number): void {
  words[position >> 5] = (words[position >> 5] ?? 0) | (1 << (position & 31));
}
