import type { IncomingHttpHeaders } from 'node:http';

/** Response of a push service, or the reason why there is none. */
export type PushServiceResponse =
  | { status: number; headers: IncomingHttpHeaders; text: string }
  /** `isStale`: the service may just have closed an idle connection, which is no failure of it. */
  | { error: string; isStale: boolean }
  /** The request was never written. */
  | 'withheld';

/** Read part of a response; error texts are shorter. */
export const MAX_BODY_BYTES = 4_096;

/** Collects the first part of a response body; the rest is not read. */
export function createBodyPrefix(): { append(chunk: Buffer): boolean; text(): string } {
  const chunks: Buffer[] = [];
  let length = 0;
  return {
    /** Returns false when no more is needed. */
    append(chunk) {
      chunks.push(chunk);
      length += chunk.length;
      return length <= MAX_BODY_BYTES;
    },
    text: () => Buffer.concat(chunks).toString('utf8', 0, MAX_BODY_BYTES),
  };
}
