import type { IncomingMessage, ServerResponse } from 'node:http';
import { constants, type Http2Session, type ServerHttp2Stream } from 'node:http2';
import { pipeline, type Readable } from 'node:stream';

/** Maximum time for a client to close its connection after GOAWAY. */
const GOAWAY_TIMEOUT_MS = 10_000;
const noop = (): void => undefined;

/** The response side of a request over HTTP/2 or HTTP/1.1. Calls after the client has disconnected do nothing. */
export interface Exchange {
  respond(status: number, headers: Record<string, string>, body: string): void;
  /** Sends a response whose body is streamed until the client disconnects. */
  stream(status: number, headers: Record<string, string>, body: Readable): void;
  /**
   * Resets the stream.
   *
   * @param refused resets with REFUSED_STREAM, so the request was not processed; HTTP/1.1 can't express it
   */
  reset(refused: boolean): void;
  /** Destroys the connection. */
  destroyConnection(): void;
  /** Sends GOAWAY: requests in progress end, then the connection closes. */
  goaway(): void;
  onClose(callback: () => void): void;
}

/** Destroys the TCP connection of a client. A socket wrapped by TLS or HTTP/2 can't do that itself. */
export type DestroyConnection = (remotePort: number | undefined) => void;

/** Creates the exchange of an HTTP/2 stream. */
export function createHttp2Exchange(
  stream: ServerHttp2Stream,
  destroyConnection: DestroyConnection,
): Exchange {
  const sendHeaders = (status: number, headers: Record<string, string>, endStream: boolean) => {
    if (stream.destroyed || stream.headersSent) return false;
    stream.respond({ ':status': status, ...headers }, { endStream });
    return true;
  };
  return {
    respond: (status, headers, body) => {
      if (sendHeaders(status, headers, body === '') && body !== '') stream.end(body);
    },
    stream: (status, headers, body) => {
      if (sendHeaders(status, headers, false)) pipeline(body, stream, noop);
    },
    reset: (refused) => {
      if (stream.destroyed) return;
      stream.close(refused ? constants.NGHTTP2_REFUSED_STREAM : constants.NGHTTP2_INTERNAL_ERROR);
    },
    destroyConnection: () => destroyConnection(stream.session?.socket.remotePort),
    goaway: () => {
      if (stream.session !== undefined) sendGoaway(stream.session, destroyConnection);
    },
    onClose: (callback) => stream.once('close', callback),
  };
}

/** Sends GOAWAY with the last received stream id. Closes the session too: it would leak in the client otherwise. */
function sendGoaway(session: Http2Session, destroyConnection: DestroyConnection): void {
  if (session.closed || session.destroyed) return;
  const { remotePort } = session.socket;
  session.goaway();
  session.close();
  const timer = setTimeout(() => destroyConnection(remotePort), GOAWAY_TIMEOUT_MS);
  session.once('close', () => clearTimeout(timer));
}

/** Creates the exchange of an HTTP/1.1 request. */
export function createHttp1Exchange(
  request: IncomingMessage,
  response: ServerResponse,
  destroyConnection: DestroyConnection,
): Exchange {
  const { remotePort } = request.socket;
  const isOpen = () => !response.destroyed && !response.headersSent;
  return {
    respond: (status, headers, body) => {
      if (!isOpen()) return;
      response.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(body) });
      response.end(body);
    },
    stream: (status, headers, body) => {
      if (isOpen()) pipeline(body, response.writeHead(status, headers), noop);
    },
    reset: () => destroyConnection(remotePort),
    destroyConnection: () => destroyConnection(remotePort),
    goaway: () => {
      response.shouldKeepAlive = false;
    },
    onClose: (callback) => response.once('close', callback),
  };
}
