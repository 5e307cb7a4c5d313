/**
 * What a gateway says about one recipient of a hand-over:
 * - acknowledged: the device's PUBACK came;
 * - silent: written to the socket, but no PUBACK within a second, or the link broke after the write;
 * - draining: the connection has not emptied its inbox yet;
 * - not-here: no such connection (any more);
 * - refused: the connection takes no more now and will read its inbox itself;
 * - not-written: the deadline passed before the write, or the gateway takes nothing now;
 * - superseded: a newer push of the same collapse key went out on this connection before;
 * - unanswered: nothing came back (never on the wire).
 */
export type Answer =
  | 'acknowledged'
  | 'silent'
  | 'draining'
  | 'not-here'
  | 'refused'
  | 'not-written'
  | 'superseded'
  | 'unanswered';

/** An answer's index is written to Redis, where processes of two versions meet: append only. */
const WIRE: readonly Answer[] = [
  'acknowledged',
  'silent',
  'draining',
  'not-here',
  'refused',
  'not-written',
  'superseded',
];

/** The answer for some recipients of one claim, by their position in the work. */
export interface Reply {
  work: string;
  claim: string;
  answer: Answer;
  positions: number[];
}

const BITMAP_BYTES = 128;

/** Gathers answers until they are sent, so that many recipients become one entry a stream. */
export interface ReplyBook {
  add(to: { reply: string; work: string; claim: string; position: number }, answer: Answer): void;
  /** Reply stream → the fields of one entry; empties the book. */
  take(): Map<string, string[]>;
}

export function createReplyBook(): ReplyBook {
  let streams = new Map<string, Map<string, Buffer>>();
  /** Answers for the same work come in a row. */
  let last:
    | { reply: string; work: string; claim: string; answer: Answer; bitmap: Buffer }
    | undefined;

  function bitmapFor(reply: string, work: string, claim: string, answer: Answer): Buffer {
    const fields = streams.get(reply) ?? new Map<string, Buffer>();
    streams.set(reply, fields);
    const name = `${work} ${claim} ${WIRE.indexOf(answer)}`;
    const bitmap = fields.get(name) ?? Buffer.alloc(BITMAP_BYTES);
    fields.set(name, bitmap);
    last = { reply, work, claim, answer, bitmap };
    return bitmap;
  }

  return {
    add({ reply, work, claim, position }, answer) {
      const isSame =
        last?.answer === answer &&
        last.claim === claim &&
        last.work === work &&
        last.reply === reply;
      const bitmap = isSame && last ? last.bitmap : bitmapFor(reply, work, claim, answer);
      bitmap[position >> 3] = (bitmap[position >> 3] ?? 0) | (1 << (position & 7));
    },
    take() {
      const taken = streams;
      streams = new Map();
      last = undefined;
      return new Map([...taken].map(([reply, fields]) => [reply, encodeFields(fields)]));
    },
  };
}

function encodeFields(fields: Map<string, Buffer>): string[] {
  return [...fields].flatMap(([name, bitmap]) => {
    // Most pushes are for one device: bytes behind the last bit say nothing.
    const used = bitmap.findLastIndex((byte) => byte !== 0) + 1;
    return [name, bitmap.toString('base64', 0, used)];
  });
}

/** Reads an entry of a reply stream (`[name, bitmap, …]`); skips what it does not know. */
export function readReplyEntry(fields: readonly string[]): Reply[] {
  const replies: Reply[] = [];
  for (let i = 0; i + 1 < fields.length; i += 2) {
    const [work, claim, code] = (fields[i] ?? '').split(' ');
    const answer = WIRE[Number(code)];
    if (!work || !claim || answer === undefined) continue;
    const positions = positionsOf(Buffer.from(fields[i + 1] ?? '', 'base64'));
    replies.push({ work, claim, answer, positions });
  }
  return replies;
}

function positionsOf(bitmap: Buffer): number[] {
  const positions: number[] = [];
  for (const [index, byte] of bitmap.entries()) {
    for (let bit = 0; bit < 8; bit += 1) {
      if ((byte & (1 << bit)) !== 0) positions.push(index * 8 + bit);
    }
  }
  return positions;
}
