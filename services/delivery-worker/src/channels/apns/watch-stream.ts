import {
  type ClientHttp2Stream,
  constants,
  type IncomingHttpHeaders,
  type IncomingHttpStatusHeader as Status,
} from 'node:http2';
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
  let isOver = false;

  function end(answer: ApnsAnswer): void {
    if (isOver) return;
    isOver = true;
    onAnswer(answer);
  }
  function breakOff(why: unknown): void {
    // A refusal without its reason isn't one to act on.
    if (!isOver) end(readFailure(why));
  }

  stream.on('response', (headers) => {
    if (headers[':status'] !== 200) {
      readRefusal(stream, headers, end, onFlood);
      return;
    }
    // That says all.
    end(TAKEN);
    stream.resume();
  });
  stream.on('error', breakOff);
  stream.on('close', () => breakOff(BROKEN));
  return breakOff;
}

function readRefusal(
  stream: ClientHttp2Stream,
  { ':status': status = 0, 'retry-after': retryAfter }: IncomingHttpHeaders & Status,
  end: (answer: ApnsAnswer) => void,
  onFlood: () => void,
): void {
  let bytes = 0;
  const chunks: Buffer[] = [];
  stream.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > MAX_ANSWER_BYTES) onFlood();
    else chunks.push(chunk);
  });
  stream.on('end', () => {
    // A cut link ends a stream too, but with a code; one that is only closed may have come whole.
    if (stream.rstCode !== constants.NGHTTP2_NO_ERROR) return;
    const text = Buffer.concat(chunks).toString();
    const after = retryAfterMs(retryAfter, Date.now());
    end({ kind: 'answered', status, ...readBody(text), retryAfterMs: after });
  });
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
