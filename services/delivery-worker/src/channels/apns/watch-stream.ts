import { type ClientHttp2Stream, constants } from 'node:http2';
import { z } from 'zod';
import { retryAfterMs } from '../retry-after.ts';
import { readFailure } from './failure.ts';
import type { ApnsAnswer } from './outcome.ts';

/** Apple's longest answer has a hundred bytes. */
const MAX_ANSWER_BYTES = 64 * 1_024;

const answerBody = z.object({
  reason: z.string().optional().catch(undefined),
  timestamp: z.number().optional().catch(undefined),
});

const TAKEN: ApnsAnswer = { kind: 'answered', status: 200 };
/** Made once: each stream closes, and a stack trace costs more than all else here. */
const BROKEN = new Error('the link broke');

/**
 * Reads an answer.
 *
 * @param onAnswer told once
 * @returns to be told that nothing more is waited for, and why
 */
export function watchStream(
  stream: ClientHttp2Stream,
  onAnswer: (answer: ApnsAnswer) => void,
  onFlood: () => void,
): (why: unknown) => void {
  let status: number | undefined;
  let retryAfter: unknown;
  let bytes = 0;
  let isOver = false;
  const chunks: Buffer[] = [];

  function end(answer: ApnsAnswer): void {
    if (isOver) return;
    isOver = true;
    onAnswer(answer);
  }
  function breakOff(why: unknown): void {
    // 200 says all in its header; a refusal without its reason isn't one to act on.
    if (!isOver) end(status === 200 ? TAKEN : readFailure(why));
  }

  stream.on('response', (headers) => {
    status = headers[':status'] ?? 0;
    retryAfter = headers['retry-after'];
  });
  stream.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > MAX_ANSWER_BYTES) onFlood();
    else chunks.push(chunk);
  });
  stream.on('end', () => {
    if (status === 200) end(TAKEN);
    // A cut link ends a stream too, but with a code; one that is only closed may have come whole.
    else if (status !== undefined && stream.rstCode === constants.NGHTTP2_NO_ERROR) {
      const text = Buffer.concat(chunks).toString();
      const after = retryAfterMs(retryAfter, Date.now());
      end({ kind: 'answered', status, ...readBody(text), retryAfterMs: after });
    }
  });
  stream.on('error', breakOff);
  stream.on('close', () => breakOff(BROKEN));
  return breakOff;
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
