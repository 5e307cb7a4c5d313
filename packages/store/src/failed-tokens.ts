import { Binary } from 'mongodb';
import { toBytes } from './bytes.ts';

/**
 * Packs which tokens of a request failed into one bit each, in the order of the request. The tokens themselves may be
 * megabytes, and a repeated request contains them again. Undefined if none failed.
 */
export function packFailed(
  tokens: readonly string[],
  isKnown: (token: string) => boolean,
): Binary | undefined {
  const bits = new Uint8Array(Math.ceil(tokens.length / 8));
  for (const [index, token] of tokens.entries()) {
    if (!isKnown(token)) bits[index >> 3] = (bits[index >> 3] ?? 0) | (1 << (index & 7));
  }
  return bits.some((byte) => byte !== 0) ? new Binary(bits) : undefined;
}

/** Returns the failed tokens of the same request from the bits of {@link packFailed}. */
export function unpackFailed(tokens: readonly string[], failed: Binary | undefined): string[] {
  const bits = toBytes(failed);
  return tokens.filter((_, index) => (((bits[index >> 3] ?? 0) >> (index & 7)) & 1) === 1);
}
