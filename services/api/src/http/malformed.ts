import type { Server, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { ApiError } from '@carillon/core/api-error';
import { errorText } from './answer.ts';

/** Closing at once would reset the connection under a sender that is still writing, and the answer with it. */
const DISCARDING_MS = 2_000;

/** What Node's parser tells of a request that it could not read. */
type ParserError = Error & { code?: string; rawPacket?: Buffer };

/**
 * Answers requests that never become one, because Node's parser refuses them: JSON too, for clients that parse
 * every answer. A parser that has failed can't go on, so the connection ends.
 */
export function answerMalformed(server: Server): void {
  const lastOf = new WeakMap<Duplex, ServerResponse>();
  server.on('request', ({ socket }, response) => lastOf.set(socket, response));
  server.on('clientError', (error: ParserError, socket: Duplex) => {
    // What comes behind the fault is refused by the parser again, and thrown away.
    if (socket.writableEnded) return;
    const answer = malformed(error);
    // Behind a request under way, the refusal of noise would be taken for that request's answer (guarantee G2).
    const isAnswering = lastOf.get(socket)?.writableFinished === false;
    if (answer === undefined || isAnswering || !socket.writable) return void socket.destroy();
    const deadline = setTimeout(() => socket.destroy(), DISCARDING_MS);
    socket.once('close', () => clearTimeout(deadline));
    const body = errorText(answer);
    socket.end(
      `HTTP/1.1 ${answer.status} \r\nContent-Type: application/json; charset=utf-8\r\n` +
        `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
    );
  });
  server.on('checkExpectation', (_request, response) => {
    answerPlainly(
      response,
      new ApiError('INVALID_PARAM', 'Nothing but 100-continue can be expected.'),
    );
  });
}

/** Answers what doesn't reach Express, and ends the connection. */
export function answerPlainly(response: ServerResponse, error: ApiError): void {
  response
    .writeHead(error.status, {
      'content-type': 'application/json; charset=utf-8',
      connection: 'close',
    })
    .end(errorText(error));
}

/** Longer than any key of ours (core/api-key). */
const ENDLESS_KEY = /^[A-Z]+ \S*[?&]api_key=[^&\s]{129}/;

/** Undefined: the client is gone. */
function malformed({ code, rawPacket }: ParserError): ApiError | undefined {
  if (code === 'ECONNRESET' || code === 'EPIPE') return undefined;
  if (code !== 'HPE_HEADER_OVERFLOW') {
    return new ApiError('INVALID_PARAM', 'The request is malformed, or it came too slowly.');
  }
  const isKey = ENDLESS_KEY.test(rawPacket?.toString('latin1') ?? '');
  return new ApiError(isKey ? 'INVALID_API_KEY' : 'HEADERS_TOO_LARGE');
}
