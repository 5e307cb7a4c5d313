import { createHash } from 'node:crypto';
import { ApiError } from '@carillon/core/api-error';

/** A sender's own name for a request, so that a repeat is recognised (guarantee G2). */
export interface Idempotency {
  key: string;
  /** SHA-256 of the body as it came, hex. */
  bodyHash: string;
}

const KEY = /^[\x20-\x7e]{1,255}$/;

/** Reads the header `Idempotency-Key`. @throws ApiError INVALID_PARAM */
export function idempotencyOf(
  header: string | undefined,
  bodyText: string,
): Idempotency | undefined {
  if (header === undefined) return undefined;
  if (!KEY.test(header)) {
    throw new ApiError('INVALID_PARAM', 'The Idempotency-Key must be 1 to 255 ASCII characters.');
  }
  return { key: header, bodyHash: createHash('sha256').update(bodyText).digest('hex') };
}
