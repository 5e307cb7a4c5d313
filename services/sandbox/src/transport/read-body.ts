import type { Http2ServerRequest } from 'node:http2';
import type { Readable } from 'node:stream';

/**
 * Maximum size of a body. It is far above every provider's limit, so that each provider sends its own error for a body
 * that is too large.
 */
const MAX_BODY_BYTES = 65_536;
/** Maximum size that a client sends; one that keeps sending after its response is disconnected. */
const MAX_SENT_BYTES = 1_048_576;

/**
 * Reads the body of a request and calls `onBody` once it is complete; not when the client disconnects before.
 * Of a body above 64 KB, passes the first 64 KB at once: the length is enough to reject it.
 */
export function readBody(
  request: Readable | Http2ServerRequest,
  onBody: (body: Buffer) => void,
): void {
  let chunks: Buffer[] = [];
  let bytes = 0;
  const emitBody = () => {
    const body = chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks);
    chunks = [];
    onBody(body);
  };
  request.on('error', () => undefined);
  request.on('data', (chunk: Buffer) => {
    const remainingBytes = MAX_BODY_BYTES - bytes;
    bytes += chunk.length;
    if (remainingBytes >= 0)
      chunks.push(chunk.length <= remainingBytes ? chunk : chunk.subarray(0, remainingBytes));
    if (remainingBytes >= 0 && bytes > MAX_BODY_BYTES) emitBody();
    if (bytes > MAX_SENT_BYTES) destroyRequest(request);
  });
  request.once('end', () => {
    if (bytes <= MAX_BODY_BYTES) emitBody();
  });
}

/** Destroys a request. Over HTTP/2, destroying the request object would leave its stream open. */
function destroyRequest(request: Readable | Http2ServerRequest): void {
  if ('stream' in request) request.stream.destroy();
  else request.destroy();
}
