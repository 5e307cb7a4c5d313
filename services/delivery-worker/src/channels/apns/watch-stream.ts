import type { ClientHttp2Stream } from 'node:http2';
import { z } from 'zod';
import { retryAfterMs } from '../retry-after.ts';
import type { ApnsAnswer } from './outcome.ts';

/** Apple's longest answer has a hundred bytes. */
const MAX_ANSWER_CHARACTERS = 64 * 1_024;

const answerBody = z.object({
  reason: z.string().optional().catch(undefined),
  timestamp: z.number().optional().catch(undefined),
});

/** What was seen of an answer on the wire. */
export interface Seen {
  /** Undefined when too little of it came to act on. */
  answer(): ApnsAnswer | undefined;
}

/**
 * Reads an answer beside node-apn, which loses the status with an empty or unreadable body, never sees Retry-After,
 * and keeps a body of any length.
 */
export function watchStream(stream: ClientHttp2Stream, onFlood: () => void): Seen {
  let status: number | undefined;
  let retryAfter: number | undefined;
  let text = '';
  let isWhole = false;

  stream.once('end', () => {
    isWhole = true;
  });
  stream.once('response', (headers) => {
    status = headers[':status'] ?? 0;
    retryAfter = retryAfterMs(headers['retry-after'], Date.now());
    let characters = 0;
    stream.on('data', (chunk: string) => {
      characters += chunk.length;
      if (characters > MAX_ANSWER_CHARACTERS) onFlood();
      else if (status !== 200) text += chunk;
    });
  });

  return {
    answer() {
      if (status === undefined) return undefined;
      // A refusal without its reason isn't one to act on; 200 says all in its header.
      if (!isWhole && status !== 200) return undefined;
      return { kind: 'answered', status, ...readBody(text), retryAfterMs: retryAfter };
    },
  };
}

function readBody(text: string): { reason?: string; timestamp?: number } {
  try {
    const { reason, timestamp } = answerBody.parse(JSON.parse(text));
    return {
      ...(reason !== undefined && { reason }),
      ...(timestamp !== undefined && { timestamp }),
    };
  } catch {
    return {};
  }
}
