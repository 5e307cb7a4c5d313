import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { ApiError } from '@carillon/core/api-error';
import type { RateLimitStatus } from '@carillon/presence/request-limit';
import type { Response } from 'express';

/** Body of a successful response: a value, JSON text (payloads keep their original text), or a {@link StreamedBody}. */
export type ResponseBody = object | string;

/** Maximum time for which a client takes nothing of a streamed body; then it is cut off. */
const STREAM_IDLE_MS = 60_000;

/** Body that is sent while it is read. An error cuts the connection, so the client sees that the body is incomplete. */
export class StreamedBody {
  readonly contentType: string;
  readonly chunks: AsyncIterable<string>;
  /** Cuts the connection when it aborts. */
  readonly signal: AbortSignal;
  /** Is called once when the body is sent, cut, or was never begun; with the error if there was one. */
  readonly onEnd: (error?: unknown) => void;
  /** A client that takes nothing for this long is cut off. */
  readonly idleMs: number;

  constructor(
    contentType: string,
    chunks: AsyncIterable<string>,
    {
      signal,
      onEnd,
      idleMs = STREAM_IDLE_MS,
    }: { signal: AbortSignal; onEnd: (error?: unknown) => void; idleMs?: number | undefined },
  ) {
    this.contentType = contentType;
    this.chunks = chunks;
    this.signal = signal;
    this.onEnd = onEnd;
    this.idleMs = idleMs;
  }
}

/** Headers of a response besides the default ones. */
export type ResponseHeaders = Record<string, string | number>;

const DEFAULT_HEADERS = {
  'content-type': 'application/json; charset=utf-8',
  'cache-control': 'no-store',
};
/** Default Retry-After of a response with status 503. */
const RETRY_AFTER_SECONDS = 5;
/**
 * Maximum bytes of a rejected body that are read and discarded, for clients that read only after they have written
 * everything.
 */
const MAX_DISCARDED_BYTES = 64 * 1024 * 1024;
/** Time for which the connection stays open for the client to read the response. */
const LINGER_TIMEOUT_MS = 5_000;

/** Sends a response with status 200. */
export function sendResponse(
  response: Response,
  body: ResponseBody,
  headers: ResponseHeaders,
): void {
  if (body instanceof StreamedBody) {
    streamBody(response, body, headers);
    return;
  }
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  // Without a length Node would use chunked transfer encoding.
  const length = Buffer.byteLength(text);
  response.writeHead(200, { ...DEFAULT_HEADERS, ...headers, 'content-length': length }).end(text);
}

/** Sends a body in chunks, each when the client has taken the one before. */
function streamBody(response: Response, body: StreamedBody, headers: ResponseHeaders): void {
  response.writeHead(200, { ...DEFAULT_HEADERS, ...headers, 'content-type': body.contentType });
  if (response.req.method === 'HEAD') {
    response.end();
    body.onEnd();
    return;
  }
  response.setTimeout(body.idleMs, () => response.destroy());
  const readable = Readable.from(body.chunks, { highWaterMark: 1 });
  pipeline(readable, response, { signal: body.signal }).then(() => body.onEnd(), body.onEnd);
}

/**
 * Sends an error in the specification's form: status, `code`, `error`.
 *
 * @param isBodyReceived the request is complete, even if the parser has not reported its end yet
 */
export function sendError(
  response: Response,
  error: ApiError,
  headers: ResponseHeaders = {},
  isBodyReceived = response.req.complete,
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
  if (isBodyReceived) {
    response.writeHead(error.status, allHeaders).end(text);
    return;
  }
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
