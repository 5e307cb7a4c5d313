import type { IncomingHttpHeaders } from 'node:http';

/** What a push service answered, or what kept it from answering. */
export type Answer =
  | { status: number; headers: IncomingHttpHeaders; text: string }
  /** `isStale`: the service may just have closed an idle link, which says nothing about it. */
  | { error: string; isStale: boolean };

/** An explanation is shorter. */
const MAX_ANSWER_BYTES = 4_096;

/** The beginning of a stranger's answer; what comes after is nobody's concern. */
export function createBeginning(): { add(chunk: Buffer): boolean; text(): string } {
  const chunks: Buffer[] = [];
  let length = 0;
  return {
    /** False: it is enough. */
    add(chunk) {
      chunks.push(chunk);
      length += chunk.length;
      return length <= MAX_ANSWER_BYTES;
    },
    text: () => Buffer.concat(chunks).toString('utf8', 0, MAX_ANSWER_BYTES),
  };
}
