import type { Server, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { ApiError } from '@carillon/core/api-error';
import { errorBody } from './response.ts';

/**
 * Time for which a connection stays open after an error response. Closing at once would reset it while the client still
 * writes, and the client would lose the response.
 */
const LINGER_TIMEOUT_MS = 2_000;

/** Code for a request that is not complete in time. */
const REQUEST_TIMEOUT_CODE = 'ERR_HTTP_REQUEST_TIMEOUT';

/** Error of Node's HTTP parser. */
type ParserError = Error & { code?: string; rawPacket?: Buffer };

/**
 * Responds to requests that Node's parser rejects. The response is JSON, for clients that parse every response. A
 * failed parser can't continue, so the connection is closed.
 *
 * @param lastResponses the last response of each connection
 */
export function handleParserErrors(
  server: Server,
  lastResponses: ReadonlyMap<Duplex, ServerResponse>,
): void {
  server.on('clientError', (error: ParserError, socket: Duplex) => {
    // The parser reports an error again for each further chunk; only the first one gets a response.
    if (socket.writableEnded) return;
    const apiError = toParserApiError(error);
    const lastResponse = lastResponses.get(socket);
    const isResponding = lastResponse?.writableFinished === false;
    if (error.code === REQUEST_TIMEOUT_CODE && lastResponse !== undefined) {
      // Its handler responds (guarantee G2), and no further request can follow.
      if (isResponding) return closeAfterResponse(lastResponse);
      // It already got its response; the client would take another one for the response to its next request.
      if (!lastResponse.req.complete) return void socket.destroy();
    }
    // The client would take an error for the response to its request in progress (guarantee G2).
    if (apiError === undefined || isResponding || !socket.writable) return void socket.destroy();
    const deadline = setTimeout(() => socket.destroy(), LINGER_TIMEOUT_MS);
    socket.once('close', () => clearTimeout(deadline));
    const body = errorBody(apiError);
    socket.end(
      `HTTP/1.1 ${apiError.status} \r\nContent-Type: application/json; charset=utf-8\r\n` +
        `Content-Length: ${Buffer.byteLength(body)}\r\nConnection: close\r\n\r\n${body}`,
    );
  });
  server.on('checkExpectation', (_request, response) => {
    sendRawError(
      response,
      new ApiError('INVALID_PARAM', 'The Expect header supports only 100-continue.'),
    );
  });
}

/** Sends an error for a request that does not reach Express, and closes the connection. */
export function sendRawError(response: ServerResponse, error: ApiError): void {
  response
    .writeHead(error.status, {
      'content-type': 'application/json; charset=utf-8',
      connection: 'close',
    })
    .end(errorBody(error));
}

/** Makes the client close its connection after this response. */
export function closeAfterResponse(response: ServerResponse): void {
  if (!response.headersSent) response.setHeader('connection', 'close');
}

/** Pattern of a request line with an API key longer than any of ours (core/api-key). */
const OVERSIZED_KEY = /^[A-Z]+ \S*[?&]api_key=[^&\s]{129}/;

/** Maps a parser error to an API error; undefined if the client has disconnected. */
function toParserApiError({ code, rawPacket }: ParserError): ApiError | undefined {
  if (code === 'ECONNRESET' || code === 'EPIPE') return undefined;
  if (code === REQUEST_TIMEOUT_CODE) return new ApiError('REQUEST_TIMEOUT');
  if (code !== 'HPE_HEADER_OVERFLOW') {
    return new ApiError('INVALID_PARAM', 'The request is malformed.');
  }
  const isOversizedKey = OVERSIZED_KEY.test(rawPacket?.toString('latin1') ?? '');
  return new ApiError(isOversizedKey ? 'INVALID_API_KEY' : 'HEADERS_TOO_LARGE');
}
