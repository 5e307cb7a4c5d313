import type { IncomingHttpHeaders } from 'node:http';
import type { Gateway } from '@carillon/core/credentials';
import { buildConnector, type Dispatcher, Pool } from 'undici';

/** Google's longest answer has a few thousand bytes. */
const MAX_ANSWER_BYTES = 256 * 1_024;
/** Google closes idle links after minutes; one that is about to be closed should not be taken. */
const IDLE_MS = 60_000;

/** A whole answer. */
export interface Reply {
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
}

/** Links to one server over HTTP/1.1. Each carries one request at a time, so one that breaks takes no other along. */
export interface Links {
  /**
   * Settles within the deadline.
   *
   * @throws Error when no whole answer came; nobody knows then what became of the request
   */
  post(path: string, headers: Record<string, string>, body: string): Promise<Reply>;
  /** Ends the links; to be called when no request is under way. */
  close(): Promise<void>;
}

/** What links may be told. */
export interface LinksOptions {
  origin: string;
  /** How many at most. */
  count: number;
  /** From the request to the end of its answer, connecting included. */
  deadlineMs: number;
  /** Where the server is reached instead. It proves to be who it is, not to be the origin. */
  gateway: Gateway | undefined;
}

/** Opens no link yet. */
export function createLinks({ origin, count, deadlineMs, gateway }: LinksOptions): Links {
  const pool = new Pool(origin, {
    connections: count,
    pipelining: 1,
    allowH2: false,
    keepAliveTimeout: IDLE_MS,
    // An exchange has one deadline for all.
    headersTimeout: 0,
    bodyTimeout: 0,
    connect: connectorTo(gateway, deadlineMs),
  });
  return {
    post(path, headers, body) {
      const { promise, resolve, reject } = Promise.withResolvers<Reply>();
      const exchange = new Exchange(resolve, reject, deadlineMs);
      pool.dispatch({ method: 'POST', path, headers, body }, exchange);
      return promise;
    },
    close: () => pool.destroy(),
  };
}

function connectorTo(gateway: Gateway | undefined, timeout: number): buildConnector.connector {
  const ca = gateway?.ca !== undefined && { ca: gateway.ca };
  const connect = buildConnector({ allowH2: false, timeout, ...ca });
  if (gateway === undefined) return connect;
  const { host } = gateway;
  const port = String(gateway.port);
  return ({ servername: _, ...options }, done) =>
    connect({ ...options, hostname: host, host, port }, done);
}

/** One request and its answer. */
class Exchange implements Dispatcher.DispatchHandler {
  readonly #resolve: (reply: Reply) => void;
  readonly #reject: (why: Error) => void;
  readonly #deadline: NodeJS.Timeout;
  #controller: Dispatcher.DispatchController | undefined;
  #isOver = false;
  #status = 0;
  #headers: IncomingHttpHeaders = {};
  #chunks: Buffer[] = [];
  #bytes = 0;

  constructor(resolve: (reply: Reply) => void, reject: (why: Error) => void, deadlineMs: number) {
    this.#resolve = resolve;
    this.#reject = reject;
    this.#deadline = setTimeout(() => this.#giveUp(new Error('no answer in time')), deadlineMs);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    // Who asked has been told that there is no answer; what isn't sent can't come twice.
    if (this.#isOver) controller.abort(new Error('too late to be sent'));
  }

  onResponseStart(_: unknown, status: number, headers: IncomingHttpHeaders): void {
    this.#status = status;
    this.#headers = headers;
  }

  onResponseData(_: unknown, chunk: Buffer): void {
    this.#bytes += chunk.length;
    if (this.#bytes > MAX_ANSWER_BYTES) this.#giveUp(new Error('the answer has no end'));
    else this.#chunks.push(chunk);
  }

  onResponseEnd(): void {
    if (!this.#end()) return;
    const text = Buffer.concat(this.#chunks).toString();
    this.#resolve({ status: this.#status, headers: this.#headers, text });
  }

  onResponseError(_: unknown, error: Error): void {
    if (this.#end()) this.#reject(error);
  }

  #giveUp(why: Error): void {
    if (this.#end()) this.#reject(why);
    this.#controller?.abort(why);
  }

  #end(): boolean {
    if (this.#isOver) return false;
    this.#isOver = true;
    clearTimeout(this.#deadline);
    return true;
  }
}
