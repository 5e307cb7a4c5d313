import type { Readable } from 'node:stream';

/** Far above every provider's limit, so that each can say in its own words that a body is too big. */
const MOST_BYTES = 65_536;

/**
 * Reads a request's body and hands it on whole; nothing is handed on when the client leaves before its end.
 * What exceeds 64 KB is thrown away, the length of what is kept then says enough.
 */
export function readBody(from: Readable, then: (body: Buffer) => void): void {
  let first: Buffer | undefined;
  let more: Buffer[] | undefined;
  let bytes = 0;
  from.on('error', () => undefined);
  from.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (first === undefined) first = chunk;
    else if (more === undefined) more = [first, chunk];
    else if (bytes <= MOST_BYTES) more.push(chunk);
  });
  from.once('end', () => {
    then(more === undefined ? (first ?? Buffer.alloc(0)) : Buffer.concat(more));
  });
}
