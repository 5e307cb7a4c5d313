import { ApiError } from '@carillon/core/api-error';
import type { Request, Response } from 'express';
import type { Allowance } from './rate-limits.ts';

/** A successful answer: a value, or JSON text already made (payloads keep their own text). */
export type Answer = object | string;

/** Headers of an answer besides those that every answer has. */
export type Headers = Record<string, string | number>;

const HEADERS = { 'content-type': 'application/json; charset=utf-8', 'cache-control': 'no-store' };
const TRY_AGAIN_SECONDS = 5;
/** As much of an unwanted body is taken and thrown away, so that its sender gets to read the answer. */
const DISCARDED_BYTES = 16 * 1024 * 1024;
const DISCARDING_MS = 5_000;

/** Sends an answer with status 200. */
export function sendAnswer(response: Response, answer: Answer, headers: Headers): void {
  const text = typeof answer === 'string' ? answer : JSON.stringify(answer);
  // Without its length Node would send it in chunks.
  const length = Buffer.byteLength(text);
  response.writeHead(200, { ...HEADERS, ...headers, 'content-length': length }).end(text);
}

/** Sends an error as the specification says: status, `code`, `error`. */
export function sendError(response: Response, error: ApiError, headers: Headers = {}): void {
  if (response.headersSent) return void response.destroy();
  const wait = error.retryAfterSeconds ?? (error.status === 503 ? TRY_AGAIN_SECONDS : undefined);
  const text = errorText(error);
  const more: Headers = wait === undefined ? headers : { ...headers, 'retry-after': wait };
  const length = Buffer.byteLength(text);
  response.writeHead(error.status, { ...HEADERS, ...more, 'content-length': length });
  if (response.req.complete) return void response.end(text);
  response.write(text);
  discardBody(response.req, () => response.end());
}

/** The body of an error. */
export function errorText(error: ApiError): string {
  return JSON.stringify({ code: error.code, error: error.message });
}

/**
 * Throws away what still comes of a body; `done` once it has ended, or took too long. Ending the answer at once
 * would reset the connection under a sender that is still writing, and the answer with it.
 */
function discardBody(request: Request, done: () => void): void {
  let bytes = 0;
  const deadline = setTimeout(done, DISCARDING_MS);
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes > DISCARDED_BYTES) request.destroy();
  });
  for (const end of ['end', 'close']) {
    request.once(end, () => {
      clearTimeout(deadline);
      done();
    });
  }
}

/** Any thrown value as an API error; surprises become INTERNAL_SERVER_ERROR without a word of their text. */
export function toApiError(error: unknown): ApiError {
  return error instanceof ApiError ? error : new ApiError('INTERNAL_SERVER_ERROR');
}

/** Where the caller stands, for clients that pace themselves (IETF httpapi-ratelimit-headers, 03). */
export function rateLimitHeaders({ limit, remaining, resetSeconds }: Allowance): Headers {
  return {
    'ratelimit-limit': limit,
    'ratelimit-remaining': Math.max(0, remaining),
    'ratelimit-reset': resetSeconds,
    'ratelimit-policy': `${limit};w=60`,
  };
}
