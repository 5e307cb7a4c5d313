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

const { NGHTTP2_CANCEL, NGHTTP2_FLAG_END_STREAM, NGHTTP2_NO_ERROR, NGHTTP2_REFUSED_STREAM } =
  constants;
/** Maximum time for which a session that is being closed waits for its requests in flight. */
const CLOSE_GRACE_MS = 10_000;
/** Codes of Node and nghttp2 for a request that the server never processed (RFC 9113, 6.8 and 8.7). */
const UNPROCESSED = [
  'NGHTTP2_REFUSED_STREAM',
  'ERR_HTTP2_GOAWAY_SESSION',
  'ERR_HTTP2_INVALID_SESSION',
];
/**
 * Error of a lost connection. Created once: each stream closes, and a stack trace costs more than all the rest of a
 * request.
 */
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

/**
 * Sends one request. Settles within the deadline.
 *
 * @param toResponse converts the result; the promise is rejected with what it throws, and with nothing else
 */
export function postOverHttp2<R>(
  request: Http2Request,
  toResponse: (result: Http2Result) => R,
): Promise<R> {
  return new Promise((resolve, reject) =>
    new Exchange(request, { toResponse, resolve, reject }).begin(),
  );
}

/** The caller's side of a request. */
interface PendingRequest<R> {
  toResponse(result: Http2Result): R;
  resolve(response: R): void;
  reject(thrown: unknown): void;
}

/** One request and its response. A class: closures for its steps would be created with every request. */
class Exchange<R> {
  readonly #request: Http2Request;
  readonly #pendingRequest: PendingRequest<R>;
  /** Not `withTimeout`, which ends with the result: this deadline ends with the stream. */
  readonly #deadline: NodeJS.Timeout;
  #isSettled = false;
  #stream: ClientHttp2Stream | undefined;
  #response: { status: number; headers: IncomingHttpHeaders } | undefined;
  #failure: Error | undefined;
  #bytes = 0;
  #chunks: Buffer[] | undefined;

  constructor(request: Http2Request, pendingRequest: PendingRequest<R>) {
    this.#request = request;
    this.#pendingRequest = pendingRequest;
    this.#deadline = setTimeout(() => this.#onTimeout(), request.deadlineMs);
  }

  /** Sends the request once the session may carry it. */
  begin(): void {
    const settingsReceived = this.#request.waitForSettings(this.#request.session);
    if (settingsReceived === true) this.#send();
    else void settingsReceived.then((sessionError) => this.#send(sessionError));
  }

  #send(sessionError?: Error): void {
    // After a timeout the caller knows the request as failed, so it is not sent.
    if (this.#isSettled) return;
    if (sessionError !== undefined) this.#fail(sessionError);
    else if (this.#request.maySend()) this.#write();
    else this.#settle({ kind: 'withheld' });
  }

  #write(): void {
    const { session, headers, body } = this.#request;
    try {
      const stream = session.request(headers as OutgoingHttpHeaders);
      this.#stream = stream;
      stream.on('response', (responseHeaders, flags) => {
        this.#onResponse(stream, responseHeaders, (flags & NGHTTP2_FLAG_END_STREAM) === 0);
      });
      stream.on('error', (error: Error) => {
        this.#failure ??= error;
      });
      stream.on('close', () => this.#onClose());
      stream.end(body);
    } catch (error) {
      this.#fail(error instanceof Error ? error : new Error(String(error)));
    }
  }

  #onResponse(
    stream: ClientHttp2Stream,
    headers: IncomingHttpHeaders & IncomingHttpStatusHeader,
    hasBody: boolean,
  ): void {
    const status = headers[':status'] ?? 0;
    this.#response = { status, headers };
    const isSuccess = status >= 200 && status < 300;
    if (isSuccess) this.#settleResponse();
    if (isSuccess && !hasBody) {
      // A stream that nobody reads does not close.
      stream.resume();
      return;
    }
    stream.on('data', (chunk: Buffer) => this.#onData(chunk));
    stream.on('end', () => {
      // A lost connection ends a stream too, but with a code; a stream that was only closed may be complete.
      if (stream.rstCode === NGHTTP2_NO_ERROR) this.#settleResponse();
    });
  }

  #onData(chunk: Buffer): void {
    this.#bytes += chunk.length;
    this.#chunks ??= [];
    this.#chunks.push(chunk);
    if (this.#bytes > this.#request.maxResponseBytes)
      this.#abort(new Error('the response is too long'));
  }

  #onClose(): void {
    clearTimeout(this.#deadline);
    if (!this.#isSettled) this.#settleIncomplete(this.#failure ?? CONNECTION_LOST);
  }

  #onTimeout(): void {
    const wasSettled = this.#isSettled;
    this.#abort(Object.assign(new Error('no response in time'), { code: 'ETIMEDOUT' }));
    if (!wasSettled) this.#request.onTimeout(this.#request.session);
  }

  /** Settles with the data received so far, and cancels the stream. */
  #abort(error: Error): void {
    if (!this.#isSettled) this.#settleIncomplete(error);
    this.#stream?.close(NGHTTP2_CANCEL);
  }

  #settleIncomplete(error: Error): void {
    if (this.#response === undefined) this.#fail(error);
    else this.#settleResponse(error);
  }

  #settleResponse(cutBy?: Error): void {
    if (this.#response === undefined || this.#isSettled) return;
    const { status, headers } = this.#response;
    const { maxResponseBytes } = this.#request;
    const text =
      this.#chunks === undefined
        ? ''
        : Buffer.concat(this.#chunks).toString('utf8', 0, maxResponseBytes);
    this.#settle(
      cutBy === undefined
        ? { kind: 'response', status, headers, text }
        : { kind: 'response', status, headers, text, cutBy },
    );
  }

  #fail(error: Error): void {
    const wasRefused = this.#stream?.rstCode === NGHTTP2_REFUSED_STREAM;
    const wasUnprocessed = wasRefused || isUnprocessed(errorTextOf(error));
    this.#settle({ kind: 'failed', error, isUnprocessed: wasUnprocessed });
  }

  #settle(result: Http2Result): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    // A response whose body is not waited for may still be sending it: the deadline ends that.
    if (result.kind !== 'response') clearTimeout(this.#deadline);
    try {
      this.#pendingRequest.resolve(this.#pendingRequest.toResponse(result));
    } catch (thrown) {
      // In a listener of the stream it would end the process.
      this.#pendingRequest.reject(thrown);
    }
  }
}

function errorTextOf(error: Error): string {
  return `${(error as NodeJS.ErrnoException).code ?? ''} ${error.message}`;
}
