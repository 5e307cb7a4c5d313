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
    const chunks: Buffer[] = [];
    let length = 0;
    try {
      // A request that is given up isn't destroyed: its connection has to carry the answer yet.
      const body: AsyncIterable<Buffer> = request.iterator({ destroyOnReturn: false });
      for await (const chunk of body) {
        length += chunk.length;
        held += chunk.length;
        if (length > limit) throw new ApiError('BODY_TOO_LARGE');
        if (held > budgetBytes) throw new ApiError('SERVICE_UNAVAILABLE');
        chunks.push(chunk);
      }
      return decoder.decode(Buffer.concat(chunks, length));
    } catch (error) {
      if (error instanceof ApiError) throw error;
      throw new ApiError('INVALID_PARAM', 'The request body could not be read as UTF-8.');
    } finally {
      held -= length;
    }
  };
}
