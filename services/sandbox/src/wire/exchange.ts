import type { IncomingMessage, ServerResponse } from 'node:http';
import { constants, type Http2Session, type ServerHttp2Stream } from 'node:http2';
import { pipeline, type Readable } from 'node:stream';

const GOODBYE_MS = 10_000;
const ignore = (): void => undefined;

/** One request's way back, over HTTP/2 or HTTP/1.1. Whatever comes after the client has gone does nothing. */
export interface Exchange {
  answer(status: number, headers: Record<string, string>, body: string): void;
  /** Answers with a body that goes on until the client leaves. */
  stream(status: number, headers: Record<string, string>, body: Readable): void;
  /** @param refused says that the request was surely not processed; HTTP/1.1 has no word for it */
  reset(refused: boolean): void;
  /** Cuts the connection. */
  drop(): void;
  /** Lets what is under way end, then closes the connection. */
  goaway(): void;
  onGone(then: () => void): void;
}

/** Cuts the TCP connection of a client; sockets that TLS or HTTP/2 has wrapped can't do it themselves. */
export type Cut = (remotePort: number | undefined) => void;

/** The way back of an HTTP/2 stream. */
export function overHttp2(stream: ServerHttp2Stream, cut: Cut): Exchange {
  const respond = (status: number, headers: Record<string, string>, endStream: boolean) => {
    if (stream.destroyed || stream.headersSent) return false;
    stream.respond({ ':status': status, ...headers }, { endStream });
    return true;
  };
  return {
    answer: (status, headers, body) => {
      if (respond(status, headers, body === '') && body !== '') stream.end(body);
    },
    stream: (status, headers, body) => {
      if (respond(status, headers, false)) pipeline(body, stream, ignore);
    },
    reset: (refused) => {
      if (stream.destroyed) return;
      stream.close(refused ? constants.NGHTTP2_REFUSED_STREAM : constants.NGHTTP2_INTERNAL_ERROR);
    },
    drop: () => cut(stream.session?.socket.remotePort),
    goaway: () => {
      if (stream.session !== undefined) sayGoodbye(stream.session, cut);
    },
    onGone: (then) => stream.once('close', then),
  };
}

/** GOAWAY now, naming the last stream that came; a session left open after it would leak in its client. */
function sayGoodbye(session: Http2Session, cut: Cut): void {
  if (session.closed || session.destroyed) return;
  const { remotePort } = session.socket;
  session.goaway();
  session.close();
  const timer = setTimeout(() => cut(remotePort), GOODBYE_MS);
  session.once('close', () => clearTimeout(timer));
}

/** The way back of an HTTP/1.1 request. */
export function overHttp1(request: IncomingMessage, response: ServerResponse, cut: Cut): Exchange {
  const { remotePort } = request.socket;
  const open = () => !response.destroyed && !response.headersSent;
  return {
    answer: (status, headers, body) => {
      if (!open()) return;
      response.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(body) });
      response.end(body);
    },
    stream: (status, headers, body) => {
      if (open()) pipeline(body, response.writeHead(status, headers), ignore);
    },
    reset: () => cut(remotePort),
    drop: () => cut(remotePort),
    goaway: () => {
      response.shouldKeepAlive = false;
    },
    onGone: (then) => response.once('close', then),
  };
}
