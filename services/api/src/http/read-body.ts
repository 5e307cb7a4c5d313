import type { IncomingMessage } from 'node:http';
import { ApiError } from '@carillon/core/api-error';

/** Bytes of bodies that a process holds at once; beyond it a client is asked to come again. */
export function createBodyReader(budgetBytes = 64 * 1024 * 1024) {
  let held = 0;
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

  /**
   * Reads a JSON body as text, at most `limit` bytes.
   *
   * @throws ApiError UNSUPPORTED_MEDIA_TYPE, BODY_TOO_LARGE, SERVICE_UNAVAILABLE, INVALID_PARAM (not UTF-8)
   */
  return async function readBody(request: IncomingMessage, limit: number): Promise<string> {
    const type = request.headers['content-type'];
    if (type !== undefined && !/^application\/json\s*(;|$)/i.test(type)) {
      throw new ApiError('UNSUPPORTED_MEDIA_TYPE');
    }
    if (request.headers['content-encoding'] !== undefined) {
      throw new ApiError('UNSUPPORTED_MEDIA_TYPE', 'The request body must not be compressed.');
    }
    if (Number(request.headers['content-length'] ?? 0) > limit)
      throw new ApiError('BODY_TOO_LARGE');
    return decode(await take(request, limit));
  };

  /** By events: an iterator costs more than all the rest of reading a short body. */
  function take(request: IncomingMessage, limit: number): Promise<Buffer[]> {
    return new Promise((resolve, reject) => {
      const chunks: Buffer[] = [];
      let length = 0;
      // A request that is given up isn't destroyed: its connection has to carry the answer yet.
      const done = (error?: ApiError): void => {
        request.off('data', add).off('end', done).off('error', broken).off('close', broken);
        held -= length;
        if (error === undefined) resolve(chunks);
        else reject(error);
      };
      const broken = (): void => done(unreadable());
      const add = (chunk: Buffer): void => {
        length += chunk.length;
        held += chunk.length;
        chunks.push(chunk);
        if (length > limit) done(new ApiError('BODY_TOO_LARGE'));
        else if (held > budgetBytes) done(new ApiError('SERVICE_UNAVAILABLE'));
      };
      // Its client went away while the key was looked up.
      if (request.destroyed) broken();
      else request.on('data', add).on('end', done).on('error', broken).on('close', broken);
    });
  }

  function decode(chunks: readonly Buffer[]): string {
    const [only] = chunks;
    try {
      return decoder.decode(
        only !== undefined && chunks.length === 1 ? only : Buffer.concat(chunks),
      );
    } catch {
      throw unreadable();
    }
  }
}

function unreadable(): ApiError {
  return new ApiError('INVALID_PARAM', 'The request body could not be read as UTF-8.');
}
