/**
 * Result of a delivery to one recipient, as its gateway reports it:
 * - acknowledged: the device sent its PUBACK;
 * - unacked: written to the socket, but no PUBACK arrived within a second, or the connection broke after the write;
 * - syncing: the connection is still replaying its inbox;
 * - not-connected: the connection does not exist (any more);
 * - backpressure: the connection accepts no more now and will read its inbox itself;
 * - not-sent: the deadline passed before the write, or the gateway accepts nothing now;
 * - superseded: a newer push with the same collapse key was already sent on this connection;
 * - unanswered: no reply arrived (never sent).
 */
export type DeliveryResult =
  | 'acknowledged'
  | 'unacked'
  | 'syncing'
  | 'not-connected'
  | 'backpressure'
  | 'not-sent'
  | 'superseded'
  | 'unanswered';

/**
 * Report of a gateway: a result, or that it has handled a dispatch to several recipients, so that each of them was
 * written or has a result. `handled` names the first recipient only.
 */
export type Report = DeliveryResult | 'handled';

/** Reports by their code. The code is sent through Redis between processes of different versions: append-only. */
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

/** Length of a bitmap with a bit for each position of a batch. */
const BITMAP_BYTES = 128;

/** Where the results of a dispatch are sent: the reply stream of a worker, and its claim on the batch. */
export interface ReplyTo {
  reply: string;
  work: string;
  claim: string;
  /** Context of the gateway's span (`traceparent`), if the push is traced; one for all recipients of a dispatch. */
  trace?: string | undefined;
}

/** Creates a collection of results until they are sent, so that many recipients share one entry per reply stream. */
export function createResultBatch() {
  let streams = new Map<string, Map<string, Buffer>>();
  /** Bitmaps of a dispatch by report code: the name of its field costs more than a result. */
  let ofDispatch = new Map<ReplyTo, (Buffer | undefined)[]>();

  function bitmapFor({ reply, work, claim, trace }: ReplyTo, code: number): Buffer {
    const fields = streams.get(reply) ?? new Map<string, Buffer>();
    streams.set(reply, fields);
    const untraced = `${work} ${claim} ${code}`;
    const name = trace === undefined ? untraced : `${untraced} ${trace}`;
    const bitmap = fields.get(name) ?? Buffer.alloc(BITMAP_BYTES);
    fields.set(name, bitmap);
    return bitmap;
  }

  return {
    /** Adds the result of the recipient at a position. @param to the same object for all recipients of a dispatch */
    add(to: ReplyTo, position: number, result: Report): void {
      let bitmaps = ofDispatch.get(to);
      if (bitmaps === undefined) {
        bitmaps = [];
        ofDispatch.set(to, bitmaps);
      }
      const code = REPORT_CODES.indexOf(result);
      let bitmap = bitmaps[code];
      if (bitmap === undefined) {
        bitmap = bitmapFor(to, code);
        bitmaps[code] = bitmap;
      }
      bitmap[position >> 3] = (bitmap[position >> 3] ?? 0) | (1 << (position & 7));
    },
    /** Returns the fields of one entry by reply stream, and empties the collection. */
    takeAll(): Map<string, string[]> {
      const taken = streams;
      streams = new Map();
      ofDispatch = new Map();
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
  for (let index = 0; index < bitmap.length; index += 1) {
    // Most bytes are 0: an entry has the results of some milliseconds.
    for (let rest = bitmap[index] ?? 0; rest !== 0; rest &= rest - 1)
      positions.push(index * 8 + (31 - Math.clz32(rest & -rest)));
  }
  return positions;
}
