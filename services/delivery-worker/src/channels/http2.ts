import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  constants,
  type IncomingHttpHeaders,
  type IncomingHttpStatusHeader,
  type OutgoingHttpHeaders,
} from 'node:http2';
import { withTimeout } from '@carillon/core/with-timeout';
import type { MaySend } from '../deliver/provider.ts';

const { NGHTTP2_CANCEL, NGHTTP2_NO_ERROR, NGHTTP2_REFUSED_STREAM } = constants;
/** Time that a session which is being closed has for its requests in flight. */
const CLOSE_GRACE_MS = 10_000;
/** Codes of Node and nghttp2 for a request that the server never processed (RFC 9113, 6.8 and 8.7). */
const UNPROCESSED = [
  'NGHTTP2_REFUSED_STREAM',
  'ERR_HTTP2_GOAWAY_SESSION',
  'ERR_HTTP2_INVALID_SESSION',
];
/** Created once: each stream closes, and a stack trace costs more than all the rest of a request. */
const CONNECTION_LOST = Object.assign(new Error('the connection was lost'), { code: 'ECONNRESET' });

/** Checks whether an error's texts say that the server never processed the request. */
export function isUnprocessed(errorTexts: string): boolean {
  return UNPROCESSED.some((code) => errorTexts.includes(code));
}

/** Returns true when a session may carry requests, else a promise of it, which has an error when it never will. */
export type WaitForSettings = (session: ClientHttp2Session) => true | Promise<Error | undefined>;

/**
 * Creates a wait for the server's SETTINGS. Until they arrive Node assumes that 100 streams are allowed; a server that
 * allows fewer refuses the rest (APNs allows one until it has seen a provider token). To be called right after a
 * session was created: it listens from then on.
 */
export function createSettingsWaiter(): WaitForSettings {
  const bySession = new WeakMap<ClientHttp2Session, ReturnType<WaitForSettings>>();
  return (session) => {
    const known = bySession.get(session);
    if (known !== undefined) return known;
    const waiting = new Promise<Error | undefined>((resolve) => {
      let failure: Error | undefined;
      session.once('error', (error: Error) => {
        failure = error;
      });
      session.once('remoteSettings', () => {
        bySession.set(session, true);
        resolve(undefined);
      });
      session.once('close', () => resolve(failure ?? new Error('closed before it was ready')));
    });
    bySession.set(session, waiting);
    return waiting;
  };
}

/** Takes a session out of use: requests in flight may end within a grace period. Resolves when it is closed. */
export async function closeGracefully(session: ClientHttp2Session): Promise<void> {
  if (session.destroyed) return;
  const closed = new Promise<void>((resolve) => session.once('close', () => resolve()));
  if (!session.closed) session.close();
  await withTimeout(closed, CLOSE_GRACE_MS, 'the session').catch(() => session.destroy());
  return closed;
}

/** A POST over a session. */
export interface Http2Request {
  session: ClientHttp2Session;
  waitForSettings: WaitForSettings;
  /** An object, or alternating names and values. */
  headers: OutgoingHttpHeaders | string[];
  body: string | Buffer;
  /** Checked right before the request is written. */
  maySend: MaySend;
  /** From the call to the response, waiting for SETTINGS included. */
  deadlineMs: number;
  maxResponseBytes: number;
  /** Called when no response came in time: on a dead connection all following requests would fail too. */
  onTimeout(session: ClientHttp2Session): void;
}

/** Result of a request. */
export type Http2Result =
  /** `text` is empty for 2xx, whose body is not waited for. `cutBy`: why the body is not complete. */
  | {
      kind: 'response';
      status: number;
      headers: IncomingHttpHeaders;
      text: string;
      cutBy?: Error;
    }
  | { kind: 'failed'; error: Error; isUnprocessed: boolean }
  /** Never written. */
  | { kind: 'withheld' };

/** Sends one request. Always resolves, within the deadline. */
export function postOverHttp2(request: Http2Request): Promise<Http2Result> {
  const { session, waitForSettings, headers, body, maySend, deadlineMs, onTimeout } = request;
  const { promise, resolve } = Promise.withResolvers<Http2Result>();
  let isSettled = false;
  let exchange: Exchange | undefined;

  function settle(result: Http2Result): void {
    if (isSettled) return;
    isSettled = true;
    // A response whose body is not waited for may still be sending it: the deadline ends that.
    if (result.kind !== 'response') clearTimeout(deadline);
    resolve(result);
  }
  function fail(error: Error): void {
    settle({ kind: 'failed', error, isUnprocessed: isUnprocessed(errorTextOf(error)) });
  }
  function start(sessionError?: Error): void {
    // After a timeout the caller knows the request as failed, so it is not sent.
    if (isSettled) return;
    if (sessionError !== undefined) fail(sessionError);
    else if (maySend()) write();
    else settle({ kind: 'withheld' });
  }
  function write(): void {
    try {
      const stream = session.request(headers as OutgoingHttpHeaders);
      const onClose = () => clearTimeout(deadline);
      exchange = readResponse(stream, request.maxResponseBytes, settle, onClose);
      stream.end(body);
    } catch (error) {
      fail(error instanceof Error ? error : new Error(String(error)));
    }
  }

  // Not `withTimeout`, which ends with the result: this deadline ends with the stream.
  const deadline = setTimeout(() => {
    const wasSettled = isSettled;
    const error = Object.assign(new Error('no response in time'), { code: 'ETIMEDOUT' });
    if (exchange === undefined) fail(error);
    else exchange.abort(error);
    if (!wasSettled) onTimeout(session);
  }, deadlineMs);
  const settingsReceived = waitForSettings(session);
  if (settingsReceived === true) start();
  else void settingsReceived.then(start);
  return promise;
}

interface Exchange {
  /** Settles with the data received so far, and cancels the stream. */
  abort(error: Error): void;
}

function readResponse(
  stream: ClientHttp2Stream,
  maxBytes: number,
  settle: (result: Http2Result) => void,
  onClose: () => void,
): Exchange {
  let response: { status: number; headers: IncomingHttpHeaders } | undefined;
  let failure: Error | undefined;
  let bytes = 0;
  const chunks: Buffer[] = [];

  function settleResponse(cutBy?: Error): void {
    if (response === undefined) return;
    const text = bytes === 0 ? '' : Buffer.concat(chunks).toString('utf8', 0, maxBytes);
    settle({ kind: 'response', ...response, text, ...(cutBy !== undefined && { cutBy }) });
  }
  function settleIncomplete(error: Error): void {
    if (response === undefined) {
      const wasRefused =
        stream.rstCode === NGHTTP2_REFUSED_STREAM || isUnprocessed(errorTextOf(error));
      settle({ kind: 'failed', error, isUnprocessed: wasRefused });
    } else settleResponse(error);
  }
  function abort(error: Error): void {
    settleIncomplete(error);
    stream.close(NGHTTP2_CANCEL);
  }

  stream.on('response', (headers: IncomingHttpHeaders & IncomingHttpStatusHeader) => {
    const status = headers[':status'] ?? 0;
    response = { status, headers };
    if (status >= 200 && status < 300) settleResponse();
  });
  stream.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    chunks.push(chunk);
    if (bytes > maxBytes) abort(new Error('the response is too long'));
  });
  stream.on('end', () => {
    // A lost connection ends a stream too, but with a code; a stream that was only closed may be complete.
    if (stream.rstCode === NGHTTP2_NO_ERROR) settleResponse();
  });
  stream.on('error', (error: Error) => {
    failure ??= error;
  });
  stream.on('close', () => {
    onClose();
    settleIncomplete(failure ?? CONNECTION_LOST);
  });
  return { abort };
}

function errorTextOf(error: Error): string {
  return `${(error as NodeJS.ErrnoException).code ?? ''} ${error.message}`;
}
