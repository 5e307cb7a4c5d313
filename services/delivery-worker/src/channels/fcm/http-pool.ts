import type { IncomingHttpHeaders } from 'node:http';
import type { HostOverride } from '@carillon/core/channels/descriptor';
import { buildConnector, type Dispatcher, Pool } from 'undici';
import type { MaySend } from '../../deliver/provider.ts';

/** Maximum size of a response. The longest of Google has a few thousand bytes. */
const MAX_RESPONSE_BYTES = 256 * 1_024;
/**
 * Maximum idle time of a connection. Google closes idle ones after minutes; a connection that is about to be closed is
 * not used.
 */
const IDLE_TIMEOUT_MS = 60_000;

/** A complete response. */
export interface HttpResponse {
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
}

/** A POST request. */
export interface PostRequest {
  path: string;
  headers: Record<string, string>;
  body: string;
  maySend: MaySend;
}

/** A request that was never written: when a connection was free, it could not be sent any more. */
export class WithheldError extends Error {}

/** No complete response came in time. */
export class ResponseTimeoutError extends Error {}

/** Settings of a pool. */
export interface HttpPoolOptions {
  origin: string;
  maxConnections: number;
  /** From the request to the end of its response, connecting included. */
  deadlineMs: number;
  /** Host to connect to instead. Its certificate is checked for its own name, not for the origin's. */
  gateway: HostOverride | undefined;
}

/** Connections to one server over HTTP/1.1. Each carries one request at a time, so a lost one affects no other. */
export type HttpPool = ReturnType<typeof createHttpPool>;

/** Creates a pool; the first request opens a connection. */
export function createHttpPool({ origin, maxConnections, deadlineMs, gateway }: HttpPoolOptions) {
  const pool = new Pool(origin, {
    connections: maxConnections,
    pipelining: 1,
    allowH2: false,
    keepAliveTimeout: IDLE_TIMEOUT_MS,
    // An exchange has a single deadline of its own.
    headersTimeout: 0,
    bodyTimeout: 0,
    connect: createConnector(gateway, deadlineMs),
  });
  return {
    /**
     * Posts a request. Settles within the deadline.
     *
     * @throws WithheldError when it was not sent; another Error when no complete response came, ResponseTimeoutError when
     * none came in time: its result is unknown
     */
    post({ path, headers, body, maySend }: PostRequest): Promise<HttpResponse> {
      const { promise, resolve, reject } = Promise.withResolvers<HttpResponse>();
      const exchange = new Exchange({ resolve, reject, maySend });
      // Not `resultWithin`, whose promises cost CPU time with every message. A response that arrived while the process was busy is
      // read before the timeout takes effect (setImmediate).
      exchange.deadline = setTimeout(
        () => setImmediate(() => exchange.abort(new ResponseTimeoutError('no response in time'))),
        deadlineMs,
      );
      pool.dispatch({ method: 'POST', path, headers, body }, exchange);
      return promise;
    },
    /** Closes the connections; to be called when no request is in flight. */
    close: (): Promise<void> => pool.destroy(),
  };
}

function createConnector(
  gateway: HostOverride | undefined,
  timeout: number,
): buildConnector.connector {
  const ca = gateway?.ca !== undefined && { ca: gateway.ca };
  const connect = buildConnector({ allowH2: false, timeout, ...ca });
  if (gateway === undefined) return connect;
  const { host } = gateway;
  const port = String(gateway.port);
  return ({ servername: _, ...options }, callback) =>
    connect({ ...options, hostname: host, host, port }, callback);
}

/** The caller's side of a request. */
interface PendingRequest {
  resolve(response: HttpResponse): void;
  reject(error: Error): void;
  maySend: MaySend;
}

/** One request and its response. */
class Exchange implements Dispatcher.DispatchHandler {
  readonly #pendingRequest: PendingRequest;
  /** Aborts the request; cleared when it is settled. */
  deadline: NodeJS.Timeout | undefined;
  #controller: Dispatcher.DispatchController | undefined;
  #isSettled = false;
  #status = 0;
  #headers: IncomingHttpHeaders = {};
  #chunks: Buffer[] = [];
  #bytes = 0;

  constructor(pendingRequest: PendingRequest) {
    this.#pendingRequest = pendingRequest;
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    // The caller knows the request as failed; not sending it avoids a duplicate.
    if (this.#isSettled) controller.abort(new Error('too late to be sent'));
    else if (!this.#pendingRequest.maySend())
      this.abort(new WithheldError('not to be sent any more'));
  }

  onResponseStart(_: unknown, status: number, headers: IncomingHttpHeaders): void {
    this.#status = status;
    this.#headers = headers;
  }

  onResponseData(_: unknown, chunk: Buffer): void {
    this.#bytes += chunk.length;
    if (this.#bytes > MAX_RESPONSE_BYTES) this.abort(new Error('the response is too long'));
    else this.#chunks.push(chunk);
  }

  onResponseEnd(): void {
    if (!this.#settle()) return;
    const text = Buffer.concat(this.#chunks).toString();
    this.#pendingRequest.resolve({ status: this.#status, headers: this.#headers, text });
  }

  onResponseError(_: unknown, error: Error): void {
    if (this.#settle()) this.#pendingRequest.reject(error);
  }

  /** Rejects the request unless it has its response, and closes its connection. */
  abort(error: Error): void {
    if (!this.#settle()) return;
    this.#pendingRequest.reject(error);
    this.#controller?.abort(error);
  }

  #settle(): boolean {
    if (this.#isSettled) return false;
    this.#isSettled = true;
    clearTimeout(this.deadline);
    return true;
  }
}
