import type { IncomingMessage } from 'node:http';
import { ApiError } from '@carillon/core/api-error';
import type { Response } from 'express';
import type { RateLimitStatus } from './rate-limits.ts';

/** Body of a successful response: a value, or JSON text (payloads keep their original text). */
export type ResponseBody = object | string;

/** Headers of a response besides the default ones. */
export type ResponseHeaders = Record<string, string | number>;

const DEFAULT_HEADERS = {
  'content-type': 'application/json; charset=utf-8',
  'cache-control': 'no-store',
};
const RETRY_AFTER_SECONDS = 5;
/** Bytes of a rejected body that are read and discarded, for clients that read only after they have written everything. */
const MAX_DISCARDED_BYTES = 64 * 1024 * 1024;
/** Time for which the connection stays open for the client to read the response. */
const LINGER_TIMEOUT_MS = 5_000;

/** Sends a response with status 200. */
export function sendResponse(
  response: Response,
  body: ResponseBody,
  headers: ResponseHeaders,
): void {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  // Without a length Node would use chunked transfer encoding.
  const length = Buffer.byteLength(text);
  response.writeHead(200, { ...DEFAULT_HEADERS, ...headers, 'content-length': length }).end(text);
}

/** Sends an error in the specification's form: status, `code`, `error`. */
export function sendError(
  response: Response,
  error: ApiError,
  headers: ResponseHeaders = {},
): void {
  if (response.headersSent) return void response.destroy();
  const retryAfterSeconds =
    error.retryAfterSeconds ?? (error.status === 503 ? RETRY_AFTER_SECONDS : undefined);
  const text = errorBody(error);
  const headersWithRetry: ResponseHeaders =
    retryAfterSeconds === undefined ? headers : { ...headers, 'retry-after': retryAfterSeconds };
  const allHeaders = {
    ...DEFAULT_HEADERS,
    ...headersWithRetry,
    'content-length': Buffer.byteLength(text),
  };
  if (response.req.complete) return void response.writeHead(error.status, allHeaders).end(text);
  response.writeHead(error.status, { ...allHeaders, connection: 'close' }).write(text);
  discardBody(response.req, () => response.end());
}

/** Returns the body of an error response. */
export function errorBody(error: ApiError): string {
  return JSON.stringify({ code: error.code, error: error.message });
}

/**
 * Discards the rest of a body and calls `onEnd` once it has ended or took too long. Ending the response at once would
 * reset the connection while the client still writes, and the client would lose the response.
 */
function discardBody(request: IncomingMessage, onEnd: () => void): void {
  let bytes = 0;
  const deadline = setTimeout(onEnd, LINGER_TIMEOUT_MS);
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    // Paused instead of closed: a client that reads while it writes needs time to process the response.
    if (bytes > MAX_DISCARDED_BYTES) request.pause();
  });
  request.resume();
  for (const event of ['end', 'close']) {
    request.once(event, () => {
      clearTimeout(deadline);
      onEnd();
    });
  }
}

/** Converts a thrown value to an API error. An unexpected error becomes INTERNAL_SERVER_ERROR without its text. */
export function toApiError(error: unknown): ApiError {
  return error instanceof ApiError ? error : new ApiError('INTERNAL_SERVER_ERROR');
}

/** Returns the RateLimit headers (IETF httpapi-ratelimit-headers, draft 03). */
export function rateLimitHeaders({
  limit,
  remaining,
  resetSeconds,
}: RateLimitStatus): ResponseHeaders {
  return {
    'ratelimit-limit': limit,
    'ratelimit-remaining': Math.max(0, remaining),
    'ratelimit-reset': resetSeconds,
    'ratelimit-policy': `${limit};w=60`,
  };
}
