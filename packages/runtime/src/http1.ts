import type { ClientRequest, IncomingHttpHeaders, IncomingMessage } from 'node:http';

/** Maximum size of the headers of a response that isn't trusted. */
export const MAX_HEADER_BYTES = 16_384;
/** Agent options of connections that are kept for further requests. */
export const KEEP_ALIVE = { keepAlive: true, timeout: 30_000 } as const;

/** Error codes of a kept connection that the server closed just before it was used again. */
const STALE_CONNECTION_CODES = ['ECONNRESET', 'EPIPE'];

/** Response of a server, or the code of the error. */
export type Http1Response =
  /** `body`: its first part; resolves when the body ends, is too long, or is cut by the deadline. Never rejects. */
  | { status: number; headers: IncomingHttpHeaders; body: Promise<Buffer> }
  /** `isStale`: the server may just have closed an idle connection, which is no failure of it. */
  | { error: string; isStale: boolean };

/** Limits of a response. */
export interface ResponseLimits {
  /** From the call to the end of the body. */
  deadlineMs: number;
  /** Part of the body that is read; the connection of a longer one is closed. */
  maxBodyBytes: number;
}

/**
 * Waits for the response to a request, which the caller writes and ends. Never rejects, and settles within the deadline:
 * a server that isn't trusted may drip a body or never end it. Redirects are not followed.
 */
export function waitForResponse(
  request: ClientRequest,
  { deadlineMs, maxBodyBytes }: ResponseLimits,
): Promise<Http1Response> {
  return new Promise((resolve) => {
    function expire(): void {
      resolve({ error: 'ETIMEDOUT', isStale: false });
      // After the headers this ends the body, and the response keeps its status.
      request.destroy(Object.assign(new Error('no response in time'), { code: 'ETIMEDOUT' }));
    }
    // A response that arrived while the process was busy is read before the deadline takes effect (setImmediate).
    const deadline = setTimeout(() => setImmediate(expire), deadlineMs);
    request.once('response', (response) => {
      const { statusCode: status = 0, headers } = response;
      resolve({ status, headers, body: readBodyPrefix(response, maxBodyBytes) });
    });
    // An error after the headers doesn't change the status.
    request.on('error', (error: NodeJS.ErrnoException) => {
      const isStale = request.reusedSocket && STALE_CONNECTION_CODES.includes(error.code ?? '');
      resolve({ error: error.code ?? error.message, isStale });
    });
    request.once('close', () => {
      clearTimeout(deadline);
      resolve({ error: 'ECONNRESET', isStale: false });
    });
  });
}

/** Reads the first part of a body; a longer or incomplete body is cut, since its status is known. */
function readBodyPrefix(response: IncomingMessage, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  return new Promise((resolve) => {
    const finish = () => resolve(Buffer.concat(chunks).subarray(0, maxBytes));
    response.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      bytes += chunk.length;
      if (bytes > maxBytes) response.destroy();
    });
    response.on('error', finish);
    response.on('close', finish);
    response.on('end', finish);
  });
}
