/**
 * Result of a delivery to one recipient, as its gateway reports it:
 * - acknowledged: the device sent its PUBACK;
 * - unacked: written to the socket, but no PUBACK arrived within a second, or the connection broke after the write;
 * - syncing: the connection is still replaying its inbox;
 * - not-connected: the connection does not exist (any more);
 * - backpressure: the connection accepts no more now and will read its inbox itself;
 * - not-sent: the deadline passed before the write, or the gateway accepts nothing now;
 * - superseded: a newer push with the same collapse key was already sent on this connection;
 * - unanswered: no reply arrived (never sent);
 * - unreachable: the shard of the recipient has failed, others have not (never sent).
 */
export type DeliveryResult =
  | 'acknowledged'
  | 'unacked'
  | 'syncing'
  | 'not-connected'
  | 'backpressure'
  | 'not-sent'
  | 'superseded'
  | 'unanswered'
  | 'unreachable';

/**
 * Report of a gateway: a result, or that it has handled a dispatch to several recipients, so that each of them was
 * written or has a result. `handled` names the first recipient only.
 */
export type Report = DeliveryResult | 'handled';

/** The index of a report is sent through Redis between processes of different versions: append-only. */
const REPORT_CODES: readonly Report[] = [
  'acknowledged',
  'unacked',
  'syncing',
  'not-connected',
  'backpressure',
  'not-sent',
  'superseded',
  'handled',
];

/** One report for some recipients of a claim, by their position in the batch. */
export interface Reply {
  work: string;
  claim: string;
  result: Report;
  positions: number[];
  /** Context of the gateway's span, if the push is traced. */
  trace?: string;
}

const BITMAP_BYTES = 128;

/** Where a delivery result is sent: the reply stream of a worker, and the recipient of its batch. */
export interface ReplyTo {
  reply: string;
  /** The shard that holds the reply stream. */
  shard: number;
  work: string;
  claim: string;
  position: number;
  /** Context of the gateway's span (`traceparent`), if the push is traced; one for all recipients of a dispatch. */
  trace?: string | undefined;
}

/** Creates a collection of results until they are sent, so that many recipients share one entry per reply stream. */
export function createResultBatch() {
  let streams = new Map<string, Map<string, Buffer>>();
  /** Consecutive results are often for the same batch. */
  let lastBitmap:
    | (Omit<ReplyTo, 'position' | 'shard'> & { result: Report; bitmap: Buffer })
    | undefined;

  function bitmapFor(
    { reply, work, claim, trace }: Omit<ReplyTo, 'shard'>,
    result: Report,
  ): Buffer {
    const fields = streams.get(reply) ?? new Map<string, Buffer>();
    streams.set(reply, fields);
    const untraced = `${work} ${claim} ${REPORT_CODES.indexOf(result)}`;
    // A worker of an earlier release reads the first three words only.
    const name = trace === undefined ? untraced : `${untraced} ${trace}`;
    const bitmap = fields.get(name) ?? Buffer.alloc(BITMAP_BYTES);
    fields.set(name, bitmap);
    lastBitmap = { reply, work, claim, trace, result, bitmap };
    return bitmap;
  }

  return {
    add(to: Omit<ReplyTo, 'shard'>, result: Report): void {
      const { reply, work, claim, position, trace } = to;
      const isSame =
        lastBitmap?.result === result &&
        lastBitmap.claim === claim &&
        lastBitmap.work === work &&
        lastBitmap.reply === reply &&
        lastBitmap.trace === trace;
      const bitmap = isSame && lastBitmap ? lastBitmap.bitmap : bitmapFor(to, result);
      bitmap[position >> 3] = (bitmap[position >> 3] ?? 0) | (1 << (position & 7));
    },
    /** Returns the fields of one entry by reply stream, and empties the collection. */
    takeAll(): Map<string, string[]> {
      const taken = streams;
      streams = new Map();
      lastBitmap = undefined;
      return new Map([...taken].map(([reply, fields]) => [reply, encodeFields(fields)]));
    },
  };
}

function encodeFields(fields: Map<string, Buffer>): string[] {
  return [...fields].flatMap(([name, bitmap]) => {
    // Trailing zero bytes are omitted: most pushes are for one device.
    const used = bitmap.findLastIndex((byte) => byte !== 0) + 1;
    return [name, bitmap.toString('base64', 0, used)];
  });
}

/** Decodes an entry of a reply stream (`[name, bitmap, …]`). Skips unknown results. */
export function readReplyEntry(fields: readonly string[]): Reply[] {
  const replies: Reply[] = [];
  for (let i = 0; i + 1 < fields.length; i += 2) {
    const [work, claim, code, trace] = (fields[i] ?? '').split(' ');
    const result = REPORT_CODES[Number(code)];
    if (!work || !claim || result === undefined) continue;
    const positions = decodePositions(Buffer.from(fields[i + 1] ?? '', 'base64'));
    replies.push({ work, claim, result, positions, ...(trace !== undefined && { trace }) });
  }
  return replies;
}

function decodePositions(bitmap: Buffer): number[] {
  const positions: number[] = [];
  for (const [index, byte] of bitmap.entries()) {
    for (let bit = 0; bit < 8; bit += 1) {
      if ((byte & (1 << bit)) !== 0) positions.push(index * 8 + bit);
    }
  }
  return positions;
}
