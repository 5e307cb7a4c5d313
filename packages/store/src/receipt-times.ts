import { pushStartMs } from '@carillon/core/ids';
import { OUTCOMES } from '@carillon/core/outcomes';
import { readUint32At } from './bytes.ts';
import type { Batch } from './documents.ts';

/*
 * A worker stores the latencies of the receipts that it has waited for in `ms`. It writes all of a batch together, when
 * it closes the batch or saves its progress; the next worker takes them over. A gateway records every
 * other receipt, such as that of a device that was offline, in `got`, with its time in `gotAt`. `gotAt` is a sparse
 * map, because operators can't change bytes of `ms`. It holds the time and not the latency, so that one statement
 * records the receipts of many pushes.
 */

type ReceiptTimes = Pick<Batch, 'ms' | 'gotAt'>;

/** Builds the operands of `$min` that record when receipts came: of one that comes twice the first time stays. */
export function buildReceiptTimes(positions: readonly number[], at: Date): Record<string, Date> {
  return Object.fromEntries(
    positions.map((position) => [`work.gotAt.${position >> 5}.${position & 31}`, at]),
  );
}

/**
 * Returns the milliseconds from the acceptance of a push, or from its due time, to the receipt of a recipient.
 *
 * @param code the recipient's outcome: a receipt that came after the end of the push changes nothing
 * @param id of the batch or the push
 * @returns 0 if the time is unknown
 */
export function latencyMsAt(
  { ms, gotAt }: ReceiptTimes,
  position: number,
  code: number,
  id: string,
): number {
  if (code !== OUTCOMES.delivered) return 0;
  const latencyMs = readUint32At(ms, position);
  if (latencyMs > 0) return latencyMs;
  const receivedAt = gotAt?.[position >> 5]?.[position & 31];
  return receivedAt === undefined ? 0 : Math.max(1, receivedAt.getTime() - pushStartMs(id));
}

/** Lists the latencies of the receipts that no worker has waited for: those that are not in `ms`. */
export function listLateLatencies(batch: ReceiptTimes, codes: Uint8Array, id: string): number[] {
  const { ms, gotAt = {} } = batch;
  const positions = Object.entries(gotAt).flatMap(([word, times]) =>
    Object.keys(times).map((bit) => Number(word) * 32 + Number(bit)),
  );
  return positions
    .filter((position) => readUint32At(ms, position) === 0)
    .map((position) => latencyMsAt(batch, position, codes[position] ?? OUTCOMES.pending, id))
    .filter((latencyMs) => latencyMs > 0);
}
